//! What a coordinator needs of memory in a large cluster: the program itself, as a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::process::{Child, Command};

use super::load::{AT_ONCE, DEVICE};
use crate::footprint::process::Usage;
use crate::world::scheduling::waiting_pod;
use crate::world::{Seen, World, until};

const PATIENCE: Duration = Duration::from_secs(300);
const MIB: f64 = 1024.0 * 1024.0;
/// Pods of one group.
const GROUP: u32 = 100;

/// Memory in MiB: now, and the most that it was.
pub struct Memory {
    pub now: f64,
    pub most: f64,
}

/// Starts the program in a cluster of so many nodes, eight pods on each, and looks when it has run some cycles.
pub async fn measure(program: &Path, nodes: u32) -> anyhow::Result<Memory> {
    let mut result = None;
    World::new()
        .coordinators(1)
        .run(async |world| {
            // What it installed stays.
            world.coordinators_mut()?.end(0).await?;
            fill(world, nodes).await?;
            let mut child = start(world, program)?;
            let seen = look(&mut child).await;
            child.kill().await?;
            result = Some(seen?);
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
        .map(|number| async move {
            let node = json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("large-{number}")},
                "status": {"allocatable": {DEVICE: "8", "cpu": "192", "memory": "1Ti", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}]}});
            anyhow::Ok(serde_json::from_value::<Node>(node)?)
        })
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
            let mut pod = waiting_pod("footprint", number as usize, &group, DEVICE, 1);
            pod["spec"]["nodeName"] = format!("large-{}", number / 8).into();
            let (pods, params) = (&pods, &params);
            async move {
                anyhow::Ok(pods.create(params, &serde_json::from_value(pod)?).await.map(drop)?)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await
}

fn start(world: &World, program: &Path) -> anyhow::Result<Child> {
    let anywhere = "127.0.0.1:0";
    let child = Command::new(program)
        .args(["--hub", anywhere, "--webhooks", anywhere, "--listen", anywhere])
        .args(["--di-server", anywhere, "--identity", "footprint", "--log", "muster=info"])
        .env("KUBECONFIG", world.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    child.with_context(|| format!("{} does not start: build it for release", program.display()))
}

/// Waits until it needs no more, and says how much that is.
async fn look(child: &mut Child) -> anyhow::Result<Memory> {
    let pid = child.id().context("it has ended")?;
    let mut before = 0.0;
    until("memory that grows no more", PATIENCE, async || {
        ensure!(child.try_wait()?.is_none(), "the coordinator has ended");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let usage = Usage::of(pid)?;
        let memory = Memory { now: usage.resident / MIB, most: usage.peak / MIB };
        let grows = memory.most > before * 1.01 || memory.most < 40.0;
        before = memory.most;
        Ok(if grows { Seen::NotYet(format!("{:.0} MiB", before)) } else { Seen::Yes(memory) })
    })
    .await
}
