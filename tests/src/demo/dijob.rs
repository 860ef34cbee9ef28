//! A DIJob whose coordinator is a process of its own that really asks the DI server for replicas, and ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::LogParams;
use muster_dijob::names;
use serde_json::{Value, json};

use super::narrator::Narrator;
use super::story::wait;
use super::table::{WIDTH, cut, table};
use crate::World;
use crate::world::Seen;
use crate::world::dijob::{ACCOUNT, selector};
use crate::world::jobset::phase;

const MANIFEST: &str = include_str!("../../../docs/examples/dijob.yaml");
const NAME: &str = "cartpole";
const INDENT: usize = 8;
/// Where the coordinator finds its token, in its container.
const TOKEN: &str = "var/run/secrets/di-server/token";

/// Shows it. An error if the job does not succeed.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    world.may_ask(ACCOUNT, &["create", "delete", "get"]).await?;
    world.create_object(manifest()?).await?;
    narrator.step("submitting docs/examples/dijob.yaml: a DI-engine job");
    narrator
        .more("its coordinator is a process on this machine; it asks the DI server for the rest");
    let seen = wait(narrator, "two collectors and a learner", async || {
        let pods = world.pods(&selector(NAME)).await?;
        let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
        Ok(if running == 4 {
            Seen::Yes(pods)
        } else {
            Seen::NotYet(format!("{running} of 4 pods run"))
        })
    })
    .await?;
    narrator.step("the coordinator was given two collectors and a learner; all run");
    let rows: Vec<Vec<String>> = seen.iter().map(row).collect();
    narrator.more(&table(&["POD", "ROLE", "STATUS"], &rows, WIDTH - INDENT).join("\n"));
    let api = world.dijobs();
    let phase = wait(narrator, "the end of the job", async || {
        let job = serde_json::to_value(api.get(NAME).await?)?;
        let phase = job["status"]["phase"].as_str().unwrap_or_default().to_owned();
        Ok(match phase.as_str() {
            "Succeeded" | "Failed" => Seen::Yes(phase),
            other => Seen::NotYet(format!("it is {other}")),
        })
    })
    .await?;
    let name = format!("{NAME}-coordinator");
    let said = world.api::<Pod>().logs(&name, &LogParams::default()).await?;
    narrator.more(&format!("kubectl logs {name}"));
    let lines: Vec<String> = said.lines().map(|line| cut(line, WIDTH - INDENT)).collect();
    narrator.more(&lines.join("\n"));
    ensure!(phase == "Succeeded", "DIJob {NAME} is {phase}");
    let left = wait(narrator, "its replicas to go", async || {
        let pods = world.pods(&selector(NAME)).await?;
        let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        Ok(if names == [name.clone()] {
            Seen::Yes(names)
        } else {
            Seen::NotYet(format!("{names:?}"))
        })
    })
    .await?;
    narrator
        .step(&format!("DIJob {NAME} is {phase}; only {} is kept, for its log", left.join(", ")));
    Ok(())
}

fn row(pod: &Pod) -> Vec<String> {
    let labels = pod.metadata.labels.as_ref();
    let role = labels.and_then(|labels| labels.get("replica-type")).cloned().unwrap_or_default();
    vec![pod.name_any(), role, phase(pod).to_owned()]
}

/// The example, with this program as its coordinator.
fn manifest() -> anyhow::Result<Value> {
    let mut job: Value = serde_saphyr::from_str(MANIFEST)?;
    let program = std::env::current_exe().context("where this program is")?;
    let program = program.to_str().context("the path of this program is no text")?;
    let template = &mut job["spec"]["coordinator"]["template"];
    template["metadata"] = json!({"annotations": {muster_sandbox::kubelet::names::EXEC: "true"}});
    let spec = &mut template["spec"];
    spec["containers"][0]["command"] = json!([program, "--play-coordinator"]);
    // A process of this machine calls from no pod's address: it shows a token, as somebody does who asks by hand.
    spec["serviceAccountName"] = json!(ACCOUNT);
    let (folder, file) = TOKEN.rsplit_once('/').context("no path")?;
    spec["containers"][0]["volumeMounts"] =
        json!([{"name": "di-server", "mountPath": format!("/{folder}")}]);
    spec["volumes"] = json!([{"name": "di-server", "projected": {"sources": [
        {"serviceAccountToken": {"audience": names::AUDIENCE, "path": file}}]}}]);
    Ok(job)
}

/// What the coordinator does: it asks for replicas, waits until it is told of all, gives one back, and ends well.
pub(super) fn play() -> ExitCode {
    match asked() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn asked() -> anyhow::Result<()> {
    let env = |name: &str| std::env::var(name).with_context(|| name.to_owned());
    // Containers start in their root directory.
    let token = std::fs::read_to_string(TOKEN).with_context(|| TOKEN.to_owned())?;
    let (server, namespace) = (env("KUBERNETES_SERVER_URL")?, env("KUBERNETES_POD_NAMESPACE")?);
    let name = env("KUBERNETES_POD_NAME")?;
    let body = json!({"namespace": namespace, "coordinator": name,
        "collectors": {"replicas": 2, "cpus": "0.1", "memory": "32Mi"}, "learners": {"replicas": 1, "cpus": "0.1"}});
    let made = ask((&server, &token), "POST", "/v1alpha1/replicas", &body.to_string())?;
    print_line("asked for 2 collectors and 1 learner:");
    addresses(&made).iter().for_each(|address| print_line(&format!("  {address}")));
    let target = format!("/v1alpha1/replicas?namespace={namespace}&coordinator={name}");
    let seen = ask((&server, &token), "GET", &target, "{}")?;
    ensure!(count(&seen, "collectors") == 2 && count(&seen, "learners") == 1, "not all: {seen}");
    // A moment of training.
    std::thread::sleep(Duration::from_secs(2));
    let body = json!({"namespace": namespace, "coordinator": name, "collectors": {"replicas": 1}});
    let gone = ask((&server, &token), "DELETE", "/v1alpha1/replicas", &body.to_string())?;
    print_line("gave a collector back:");
    addresses(&gone).iter().for_each(|address| print_line(&format!("  {address}")));
    print_line("trained");
    Ok(())
}

fn print_line(text: &str) {
    let _unheard = writeln!(std::io::stdout(), "{text}");
}

fn count(said: &Value, key: &str) -> usize {
    said[key].as_array().map_or(0, Vec::len)
}

fn addresses(said: &Value) -> Vec<String> {
    let list = |key: &str| said[key].as_array().cloned().unwrap_or_default();
    let all = list("collectors").into_iter().chain(list("learners"));
    all.filter_map(|url| url.as_str().map(str::to_owned)).collect()
}

/// Asks as DI-engine does: a body with every method, and no Content-Type. The data of the answer.
fn ask(
    (server, token): (&str, &str),
    method: &str,
    target: &str,
    body: &str,
) -> anyhow::Result<Value> {
    let mut stream =
        TcpStream::connect(server).with_context(|| format!("the DI server at {server}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let said = answer.split_once("\r\n\r\n").map(|(_, body)| body).context("no answer")?;
    let said: Value = serde_json::from_str(said).with_context(|| answer.clone())?;
    ensure!(said["success"] == true, "{method} {target}: {said}");
    Ok(said["data"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_played_by_this_program() {
        let job = manifest().unwrap();
        let command = &job["spec"]["coordinator"]["template"]["spec"]["containers"][0]["command"];
        assert_eq!(command[1], "--play-coordinator");
        assert_eq!(job["metadata"]["name"], NAME);
    }
}
