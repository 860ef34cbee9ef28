//! kubectl on a cluster with a coordinator: what a user types, and what it prints.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use muster_tests::World;
use muster_tests::world::Seen;
use tokio::process::Command;

use super::say;
use crate::suite::docs::read;

/// The kubectl to use: `$KUBECTL`, else that of the path.
fn kubectl() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KUBECTL").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file())
}

/// A kubectl for a world.
struct Kubectl<'a> {
    program: PathBuf,
    world: &'a World,
    home: tempfile::TempDir,
}

impl Kubectl<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // No preferences and no cache of the user's count.
        command.env("HOME", self.home.path()).env("KUBECONFIG", self.world.kubeconfig());
        command.arg("--namespace").arg(self.world.namespace()).args(args);
        command
    }

    async fn run(&self, args: &[&str]) -> Result<String> {
        say(self.command(args)).await
    }

    /// What it says when it refuses, or finds a difference.
    async fn refused(&self, args: &[&str]) -> Result<(Option<i32>, String)> {
        let mut command = self.command(args);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
    }

    /// A file with this content.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.home.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_explains_applies_shows_compares_waits_for_and_deletes_our_objects() -> Result<()> {
    let Some(program) = kubectl() else {
        eprintln!("left out: there is no kubectl; set KUBECTL, hack/cluster/up builds one");
        return Ok(());
    };
    if World::is_real() {
        eprintln!(
            "left out: hack/cluster/kubectl-test does this on a real cluster, without our names"
        );
        return Ok(());
    }
    // Without strict: over plain HTTP kubectl sends no token. hack/cluster/kubectl-test has TLS.
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let k = Kubectl { program, world, home: tempfile::tempdir()? };
            let told = k.run(&["explain", "trainjob.spec.trainer.numNodes"]).await?;
            ensure!(
                told.contains("FIELD: numNodes <integer>") && told.contains("How many nodes"),
                "{told}"
            );
            let told = k.run(&[
                "explain",
                "modelservings.spec",
                "--api-version",
                "workload.serving.volcano.sh/v1alpha1",
            ]);
            let told = told.await?;
            ensure!(told.contains("schedulerName"), "{told}");
            let told = k
                .run(&["api-resources", "--api-group", "scheduling.run.ai", "--no-headers"])
                .await?;
            ensure!(
                ["bindrequests", "podgroups", "queues"].iter().all(|kind| told.contains(kind)),
                "{told}"
            );

            // The quick start's TrainJob, on simulated NPUs.
            let text = read("docs/examples/trainjob-ascend.yaml")?;
            let (runtime, job) = text.split_once("\n---\n").context("two documents")?;
            let (runtime, job) = (k.file("runtime.yaml", runtime)?, k.file("job.yaml", job)?);
            k.run(&["apply", "-f", &runtime]).await?;
            world
                .until("a TrainJob that is taken", async || {
                    let (code, said) = k.refused(&["apply", "-f", &job]).await?;
                    ensure!(code == Some(0) || said.contains("must be created before"), "{said}");
                    Ok(if code == Some(0) { Seen::Yes(()) } else { Seen::NotYet(said) })
                })
                .await?;
            let (code, same) = k.refused(&["diff", "-f", &job]).await?;
            ensure!(code == Some(0), "applied, and yet different: {same}");
            let changed = std::fs::read_to_string(&job)?
                .replace("name: llama", "name: llama\n  labels: {a: b}");
            let changed = k.file("changed.yaml", &changed)?;
            let (code, other) = k.refused(&["diff", "-f", &changed]).await?;
            ensure!(code == Some(1) && other.contains("+    a: b"), "{code:?} {other}");
            k.run(&["wait", "--for=condition=Complete", "trainjob/llama", "--timeout=60s"]).await?;
            let shown = k.run(&["get", "trainjobs"]).await?;
            let head: Vec<&str> =
                shown.lines().next().unwrap_or_default().split_whitespace().collect();
            assert_eq!(head, ["NAME", "STATE", "AGE"]);
            ensure!(shown.contains("llama   Complete"), "{shown}");
            let table =
                k.run(&["get", "configmap", "llama-ranktable", "-o", "jsonpath={.data}"]).await?;
            assert_eq!(table.matches("rank_id").count(), 16, "{table}");
            let events = k.run(&["describe", "jobset", "llama"]).await?;
            ensure!(
                events.contains("RanktableDelivered") && !events.contains("<unknown>"),
                "{events}"
            );

            // Columns of the others.
            let text = read("docs/examples/modelserving-vllm.yaml")?;
            k.run(&["apply", "-f", &k.file("serving.yaml", &text)?]).await?;
            let kind = "modelservings.workload.serving.volcano.sh";
            k.run(&["wait", "--for=condition=Available", &format!("{kind}/vllm"), "--timeout=60s"])
                .await?;
            k.run(&["scale", &format!("{kind}/vllm"), "--replicas=0"]).await?;
            let shown = k.run(&["get", kind, "vllm"]).await?;
            ensure!(shown.starts_with("NAME") && shown.lines().count() == 2, "{shown}");
            let (code, said) = k
                .refused(&[
                    "patch",
                    kind,
                    "vllm",
                    "--type=merge",
                    "-p",
                    r#"{"spec":{"replicas":-1}}"#,
                ])
                .await?;
            ensure!(code == Some(1) && said.contains("spec.replicas"), "{said}");
            k.run(&["delete", "trainjob/llama", &format!("{kind}/vllm"), "--timeout=60s"]).await?;
            let left = k.run(&["get", "jobsets,pods", "-o", "name"]).await?;
            println!("left right after the deletion: {left:?}");
            Ok(())
        })
        .await
}
