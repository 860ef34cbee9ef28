//! Clients that nobody here wrote: the Kubeflow SDK, the official Python client, kubectl. Each is left out, and says so, where its
//! package cannot be had.

mod kubectl;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::trainjob::{change, job, workload};

/// What pip and the clients may take.
const LONGEST: Duration = Duration::from_secs(300);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// The Python that has the clients; none where they are not wanted.
async fn python(client: &str) -> Result<Option<PathBuf>> {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    if std::env::var_os("MUSTER_PYPI").is_none_or(|set| set != "1") {
        eprintln!("left out: MUSTER_PYPI=1 lets this test fetch {client} from PyPI");
        return Ok(None);
    }
    let place = MADE
        .get_or_try_init(|| async {
            let said = say(Command::new(folder().join("install"))).await?;
            anyhow::Ok(PathBuf::from(said.trim()))
        })
        .await?;
    Ok(Some(place.join("bin/python")))
}

/// What a program prints, if it ends well.
async fn say(mut program: Command) -> Result<String> {
    program.stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(LONGEST, program.output()).await;
    let output = ran.with_context(|| format!("{program:?} does not end"))?;
    let output = output.with_context(|| format!("{program:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program:?}: {}\n{said}\n{wrong}", output.status);
    Ok(said)
}

/// Runs a client's program, with what it needs to know of the world.
async fn ask(world: &World, python: &Path, program: &str, args: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    command.arg("-B").arg(folder().join(program)).arg(world.kubeconfig()).arg(world.namespace());
    command.args(args);
    if !World::is_real() {
        // A real API server asks kubelets for logs; simulated ones have no port for it.
        command.arg("logs");
    }
    let said = say(command).await?;
    println!("{said}");
    ensure!(said.lines().last() == Some("DONE"), "{said}");
    Ok(())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Every object of a shipped file or folder.
pub fn shipped(path: &str) -> Result<Vec<Value>> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path);
    let mut files = vec![place.clone()];
    if place.is_dir() {
        files = std::fs::read_dir(&place)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
        files.sort();
    }
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let documents = serde_saphyr::from_multiple::<Value>(&text);
        all.extend(documents.with_context(|| file.display().to_string())?);
    }
    Ok(all)
}

/// Installs the shipped runtimes, and one of the namespace whose jobs fail at once; returns when the coordinators know them.
async fn install_runtimes(world: &World) -> Result<()> {
    for object in shipped("trainer/trainer-public.yaml")? {
        world.create_if_missing(object).await?;
    }
    for runtime in shipped("runtimes")? {
        world.create_object(runtime).await?;
    }
    let once = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "metadata": {"name": "once", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [{
            "name": "node", "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"backoffLimit": 0, "template": {
                    "metadata": {"annotations": {"sandbox.muster.dev/exec": "true"}},
                    "spec": {"restartPolicy": "Never",
                        "containers": [{"name": "node", "image": "trainer:1"}]}}}}}]}}}});
    world.create_object(once).await?;
    for (name, runtime, kind) in [
        ("known", "xgboost-distributed", "ClusterTrainingRuntime"),
        ("known-too", "once", "TrainingRuntime"),
    ] {
        let mut probe = job(name, runtime, 1);
        probe["spec"]["suspend"] = true.into();
        probe["spec"]["runtimeRef"]["kind"] = kind.into();
        world.train(probe).await?;
        change(world, name, json!({"metadata": {"finalizers": null}})).await?;
        world.trainjobs().delete(name, &kube::api::DeleteParams::default()).await?;
    }
    Ok(())
}

/// No client is needed for this one: everybody's runtimes are taken as they are shipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_each_of_the_shipped_runtimes_becomes_a_jobset() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            install_runtimes(world).await?;
            for runtime in shipped("runtimes")? {
                let runtime = runtime["metadata"]["name"].as_str().context("no name")?.to_owned();
                // Its volume needs a JobSet of 0.11, which is neither in the sandbox nor in hack/cluster.
                if runtime.starts_with("torchtune-") {
                    continue;
                }
                let name = format!("on-{runtime}");
                let mut wanted = job(&name, &runtime, 2);
                wanted["spec"]["suspend"] = true.into();
                world.create_object(wanted).await?;
                let set = workload(world, &name).await?;
                let jobs = set["spec"]["replicatedJobs"].as_array().context("no jobs")?;
                let pods: u64 = jobs
                    .iter()
                    .filter_map(|job| job["template"]["spec"]["parallelism"].as_u64())
                    .sum();
                assert_eq!(pods, 2, "{runtime}: {set}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kubeflow_sdk_lists_runtimes_trains_waits_reads_logs_and_deletes() -> Result<()> {
    let Some(python) = python("the Kubeflow SDK").await? else { return Ok(()) };
    // PyTorch is too large to fetch for this: the launcher runs the function once per node.
    let files = tempfile::tempdir()?;
    let torchrun = files.path().join("torchrun");
    std::fs::write(&torchrun, "#!/bin/sh\nexec python3 \"$@\"\n")?;
    std::os::unix::fs::symlink(&python, files.path().join("python3"))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&torchrun, mode)?;
    World::new()
        .nodes_of(Profile::NvidiaH1008, 3)
        .processes()
        .strict(true)
        .coordinators(1)
        .run(async |world| {
            install_runtimes(world).await?;
            let (prefix, files) = (world.own(""), files.path().display().to_string());
            ask(world, &python, "kubeflow_sdk.py", &[or_dash(&prefix), &files]).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_of_kubernetes_reads_writes_and_watches_pods_and_custom_objects()
-> Result<()> {
    let Some(python) = python("the Python client of Kubernetes").await? else { return Ok(()) };
    World::new()
        .nodes(2)
        .strict(true)
        .coordinators(1)
        .run(async |world| {
            let prefix = world.own("");
            let mark = or_dash(prefix.trim_end_matches('-'));
            ask(world, &python, "kubernetes_client.py", &[mark]).await
        })
        .await
}
