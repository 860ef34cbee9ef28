//! One agent that has nothing else to do: how long a table takes from the hub's queue to the pod's eyes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use muster_agent::names;
use muster_proto::delivery::{Delivery, Place};
use serde_json::json;
use tokio::runtime::Handle;

use super::cluster::{self, Cluster};
use crate::world::{HOLD, Seen, World, table_file, until};

/// How long one delivery may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was measured.
pub struct Alone {
    /// From the hub's queue to a file that can be read, sorted: the wire and the agent.
    pub seen: Vec<Duration>,
    /// The agent's own figure: 99 % are within this bound of its histogram, in seconds.
    pub within: f64,
}

/// Delivers variants of a table, one after the other.
pub async fn measure(table: &[u8], times: usize, agents: &Handle) -> anyhow::Result<Alone> {
    let mut result = None;
    cluster::plan(1)
        .run(async |world| {
            let cluster = Cluster::start(world, agents, 8).await?;
            result = Some(deliver(world, &cluster, table, times).await);
            cluster.stop().await;
            Ok(())
        })
        .await?;
    result.context("nothing was measured")?
}

async fn deliver(
    world: &World,
    cluster: &Cluster<'_>,
    table: &[u8],
    times: usize,
) -> anyhow::Result<Alone> {
    let hub = cluster.hub();
    let (node, uid) = holder(world, cluster).await?;
    let handle = world.kubelets().and_then(|nodes| nodes.node(&node)).context("no node")?;
    let file = table_file(&handle.spec().root, &uid, "ranktable.json");
    let place = Place { pod_uid: uid, volume: "ranktable".into(), file: "ranktable.json".into() };
    let before = cluster.agents();
    let mut seen = Vec::new();
    for number in 0..times {
        // Blanks after a table leave it a table and make it another content.
        let text = [table, &vec![b' '; number + 1]].concat();
        let blob = hub.pack(&text)?;
        let generation = 1000 + number as u64;
        let (place, digest) = (place.clone(), blob.digest());
        let delivery = Delivery { place, generation, digest, mode: 0o644, group: None };
        let eye = look_for(&file, text.len() as u64);
        let begun = Instant::now();
        hub.deliver(&node, delivery, blob)?;
        let at = tokio::task::spawn_blocking(move || eye.join()).await?;
        let at = at.ok().flatten().context("the table does not come")?;
        seen.push(at.duration_since(begun));
        ensure!(std::fs::read(&file)? == text, "another table came");
        // The agent has said so when it is idle again.
        until("the agent's word", PATIENCE, async || {
            let tables = hub.tables(&node).context("no node")?;
            let there = tables.delivered.iter().any(|one| one.generation == generation);
            Ok(if there { Seen::Yes(()) } else { Seen::NotYet(format!("{tables:?}")) })
        })
        .await?;
    }
    seen.sort();
    let within = cluster.agents().since(&before).within(super::READABLE, 0.99);
    Ok(Alone { seen, within })
}

/// A pod that holds all devices, has a volume for a table, and says too little to get one from the coordinator; its node
/// and its uid.
async fn holder(world: &World, cluster: &Cluster<'_>) -> anyhow::Result<(String, String)> {
    let node = cluster.first().to_owned();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "holder", "labels": { names::RANK_GROUP: "alone" } },
        "spec": { "nodeName": node, "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{ "name": "c", "image": HOLD,
                "resources": { "limits": { "huawei.com/Ascend910": "8" } } }],
            "volumes": [{ "name": "ranktable", "emptyDir": {} }] },
    });
    let made = world.create_object(pod).await?;
    until("the pod at the hub", PATIENCE, async || {
        let pods = cluster.hub().pods();
        let known = pods.get(&node).is_some_and(|pods| !pods.is_empty());
        Ok(if known { Seen::Yes(()) } else { Seen::NotYet("none".to_owned()) })
    })
    .await?;
    Ok((node, made["metadata"]["uid"].as_str().context("no uid")?.to_owned()))
}

/// Looks at a file's size all the time; when it was this.
fn look_for(file: &Path, size: u64) -> std::thread::JoinHandle<Option<Instant>> {
    let file: PathBuf = file.to_owned();
    std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if std::fs::metadata(&file).is_ok_and(|found| found.size() == size) {
                return Some(Instant::now());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None
    })
}
