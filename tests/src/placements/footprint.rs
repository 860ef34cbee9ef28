//! What a coordinator needs of memory in a large cluster: the program itself, as a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::load::{AT_ONCE, DEVICE};
use crate::footprint::process::Usage;
use crate::world::scheduling::waiting_pod;
use crate::world::{Seen, World, until};

const PATIENCE: Duration = Duration::from_secs(300);
const MIB: f64 = 1024.0 * 1024.0;
/// Pods of one group.
const GROUP: u32 = 100;

/// What coordinators need of memory.
pub struct Memory {
    /// The one that leads.
    pub leading: Resident,
    /// One that waits to lead.
    pub waiting: Resident,
}

/// Resident memory in MiB.
pub struct Resident {
    /// At present.
    pub now: f64,
    /// The most that it was.
    pub most: f64,
}

/// Starts the program in a cluster of so many nodes, eight pods on each, and looks when it has run some cycles.
pub async fn measure(program: &Path, nodes: u32) -> anyhow::Result<Memory> {
    let mut result = None;
    World::new()
        .coordinators(1)
        .run(async |world| {
            // What it installed stays, except that nobody would answer for its webhooks.
            world.coordinators_mut()?.end(0).await?;
            world.remove_webhook().await;
            fill(world, nodes).await?;
            let mut leader = start(world, program, "leader")?;
            until_led(world).await?;
            let leading = resident(&mut leader).await?;
            let mut standby = start(world, program, "standby")?;
            let waiting = resident(&mut standby).await?;
            leader.kill().await?;
            standby.kill().await?;
            result = Some(Memory { leading, waiting });
            Ok(())
        })
        .await?;
    result.context("nothing was measured")
}

async fn fill(world: &World, nodes: u32) -> anyhow::Result<()> {
    world.queue("footprint", "", -1.0, -1.0).await?;
    let (all, pods): (Api<Node>, Api<Pod>) = (Api::all(world.client()), world.api());
    let params = PostParams::default();
    futures::stream::iter(0..nodes)
        .map(|number| async move { anyhow::Ok(serde_json::from_value::<Node>(node(number))?) })
        .buffer_unordered(1)
        .map(|node| async { anyhow::Ok(all.create(&params, &node?).await.map(drop)?) })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    for group in 0..(nodes * 8).div_ceil(GROUP) {
        world.pod_group(&format!("group-{group}"), "footprint", 1, json!({})).await?;
    }
    futures::stream::iter(0..nodes * 8)
        .map(|number| {
            let group = format!("group-{}", number / GROUP);
            let pod = pod(number, &group);
            let (pods, params) = (&pods, &params);
            async move {
                anyhow::Ok(pods.create(params, &serde_json::from_value(pod)?).await.map(drop)?)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await
}

/// A node with all that a kubelet writes.
fn node(number: u32) -> Value {
    let name = format!("large-{number}");
    let has = json!({DEVICE: "8", "cpu": "192", "memory": "1Ti", "pods": "110",
        "ephemeral-storage": "3750Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "KubeletReports",
            "message": "the kubelet has looked and says so",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let images: Vec<Value> = (0..50)
        .map(|at| {
            let digest = format!("{at:064x}");
            json!({"sizeBytes": 1_000_000_000 + at, "names": [
                format!("registry.example.com/team/image-{at}@sha256:{digest}"),
                format!("registry.example.com/team/image-{at}:v1.{at}")]})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64",
                "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "ascend910b-8",
                "topology.kubernetes.io/zone": format!("zone-{}", number / 1000),
                "topology.example.com/rack": format!("rack-{}", number / 16)},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "example.com/addresses": "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"}},
        "status": {"allocatable": has, "capacity": has, "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"architecture": "arm64", "kernelVersion": "5.10.0", "osImage": "Linux",
                "bootID": name, "machineID": name, "systemUUID": name, "operatingSystem": "linux",
                "containerRuntimeVersion": "containerd://2.0.0", "kubeletVersion": "v1.34.0", "kubeProxyVersion": ""},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")]}})
}

/// A pod on its node, with what a trainer's pod usually says.
fn pod(number: u32, group: &str) -> Value {
    let mut pod = waiting_pod("footprint", number as usize, group, DEVICE, 1);
    let env: Vec<Value> = (0..30)
        .map(|at| json!({"name": format!("TRAINER_SETTING_{at}"), "value": format!("value-{at}-of-{group}")}))
        .collect();
    let word = |name: &str| json!({"name": name, "mountPath": format!("/mnt/{name}")});
    pod["spec"]["nodeName"] = format!("large-{}", number / 8).into();
    pod["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    pod["spec"]["volumes"] = json!([{"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "logs", "hostPath": {"path": "/var/log/npu"}},
        {"name": "table", "configMap": {"name": format!("{group}-table")}}]);
    let container = &mut pod["spec"]["containers"][0];
    container["env"] = env.into();
    container["command"] =
        json!(["python", "-m", "train", "--config", "/etc/train/config.yaml", "--resume"]);
    container["volumeMounts"] = json!([word("shm"), word("logs"), word("table")]);
    container["ports"] = json!([{"containerPort": 29500, "name": "rendezvous"}]);
    let labels = json!({"app.kubernetes.io/name": group, "app.kubernetes.io/part-of": "footprint",
        "batch.kubernetes.io/job-name": group, "batch.kubernetes.io/job-completion-index": number.to_string(),
        "batch.kubernetes.io/controller-uid": format!("{:032x}", number / GROUP)});
    if let (Some(all), Some(more)) = (pod["metadata"]["labels"].as_object_mut(), labels.as_object())
    {
        all.extend(more.clone());
    }
    pod["metadata"]["annotations"]["example.com/notes"] = "n".repeat(400).into();
    pod
}

fn start(world: &World, program: &Path, identity: &str) -> anyhow::Result<Child> {
    let anywhere = "127.0.0.1:0";
    let child = Command::new(program)
        .args(["--hub", anywhere, "--webhooks", anywhere, "--listen", anywhere])
        .args(["--di-server", anywhere, "--identity", identity, "--log", "muster=info"])
        .env("KUBECONFIG", world.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    child.with_context(|| format!("{} does not start: build it for release", program.display()))
}

/// Waits until whoever leads has seen all pods: the queue says what they have.
async fn until_led(world: &World) -> anyhow::Result<()> {
    let queue = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "footprint"}});
    until("what the queue has", PATIENCE, async || {
        let status = world.object(&queue).await?["status"].clone();
        // Nothing is said before everything has been listed.
        Ok(match status["allocated"][DEVICE].is_null() {
            false => Seen::Yes(()),
            true => Seen::NotYet(status.to_string()),
        })
    })
    .await
}

/// Waits until it needs no more, and says how much that is.
async fn resident(child: &mut Child) -> anyhow::Result<Resident> {
    let pid = child.id().context("it has ended")?;
    let mut before = 0.0;
    until("memory that grows no more", PATIENCE, async || {
        ensure!(child.try_wait()?.is_none(), "the coordinator has ended");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let usage = Usage::of(pid)?;
        let memory = Resident { now: usage.resident / MIB, most: usage.peak / MIB };
        let grows = memory.most > before * 1.01;
        before = memory.most;
        Ok(if grows { Seen::NotYet(format!("{:.0} MiB", before)) } else { Seen::Yes(memory) })
    })
    .await
}
