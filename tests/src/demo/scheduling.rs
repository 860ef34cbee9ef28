//! Two queues that compete, a gang that stays together, and one that cannot run and says why.

use anyhow::{Context, ensure};
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::narrator::Narrator;
use super::story::wait;
use super::table::{WIDTH, table};
use crate::World;
use crate::world::Seen;
use crate::world::scheduling::{SET, node, waiting_pod};

const GPU: &str = "nvidia.com/gpu";
const INDENT: usize = 8;

/// Shows it. An error if anything does not come as it must.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let nodes = hosts(world).await?;
    let all = 8 * nodes as u32;
    world.queue("company", "", f64::from(all), -1.0).await?;
    world.queue("research", "company", 8.0, -1.0).await?;
    world.queue("students", "company", 0.0, -1.0).await?;
    narrator.step(&format!(
        "two queues share {all} GPUs: research is due 8 of them, students what is left over"
    ));
    let count = 2 * nodes;
    for number in 0..count {
        let group = format!("students-{number}");
        world.pod_group(&group, "students", 1, json!({})).await?;
        world.create_object(pod("students", number, &group, 4)).await?;
    }
    let placed = placed(narrator, world, "students", count).await?;
    narrator.step(&format!("{} pods of students take all of them", placed.len()));

    world
        .create_object(json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
            "metadata": {"name": "hosts"},
            "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}))
        .await?;
    let near = json!({"topologyConstraint":
        {"topology": "hosts", "requiredTopologyLevel": "kubernetes.io/hostname"}});
    world.pod_group("research", "research", 2, near).await?;
    for number in 0..2 {
        world.create_object(pod("research", number, "research", 4)).await?;
    }
    narrator.step("research submits a gang of 2 x 4 GPUs that must be on one host");
    let gang = self::placed(narrator, world, "research", 2).await?;
    let host = gang.first().and_then(node).context("a node")?.to_owned();
    ensure!(gang.iter().all(|pod| node(pod) == Some(&host)), "the gang is on two hosts");
    let left = world.pods_of("students").await?.len();
    ensure!(left + 2 == count, "{left} of {count} pods of students are left");
    narrator.step("two pods of students had to go, and the gang is together in their place");
    let rows: Vec<Vec<String>> = gang
        .iter()
        .map(|pod| vec![pod.name_any(), node(pod).unwrap_or_default().to_owned()])
        .collect();
    narrator.more(&table(&["POD", "NODE"], &rows, WIDTH - INDENT).join("\n"));

    world.pod_group("impossible", "research", 1, json!({})).await?;
    world.create_object(pod("impossible", 0, "impossible", 16)).await?;
    narrator.step("somebody submits a pod of 16 GPUs, which no node has");
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "impossible"}});
    wait(narrator, "a reason", async || {
        let group = world.object(&group).await?;
        let reason = group.pointer("/status/conditions/0/reason").and_then(|it| it.as_str());
        Ok(match reason {
            Some("LargerThanAnyNode") => Seen::Yes(()),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await?;
    let said = explain(world).await?;
    ensure!(said.contains("LargerThanAnyNode"), "explain does not name the reason: {said}");
    narrator.step("kubectl muster explain podgroup/impossible");
    narrator.more(said.trim_end());
    clear(narrator, world).await
}

/// What `kubectl muster explain` says, asked of the same cluster.
async fn explain(world: &World) -> anyhow::Result<String> {
    let kubeconfig = world.kubeconfig().display().to_string();
    let namespace = world.namespace().to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let args = musterctl::args::Args::try_parse_from([
            "musterctl",
            "explain",
            "podgroup/impossible",
            "--kubeconfig",
            &kubeconfig,
            "-n",
            &namespace,
        ])?;
        let mut said = Vec::new();
        musterctl::run(args, &mut said)?;
        anyhow::Ok(String::from_utf8_lossy(&said).into_owned())
    });
    asked.await?
}

/// A pod that runs until it is deleted.
fn pod(set: &str, number: usize, group: &str, devices: u32) -> Value {
    let mut pod = waiting_pod(set, number, group, GPU, devices);
    pod["spec"]["containers"][0]["image"] = "train".into();
    pod
}

/// Hosts with GPUs.
async fn hosts(world: &World) -> anyhow::Result<usize> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(world.client());
    let all = nodes.list(&ListParams::default()).await?.items;
    let has = |node: &k8s_openapi::api::core::v1::Node| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        allocatable.is_some_and(|amounts| amounts.contains_key(GPU))
    };
    Ok(all.iter().filter(|node| has(node)).count())
}

async fn placed(
    narrator: &mut Narrator,
    world: &World,
    set: &str,
    count: usize,
) -> anyhow::Result<Vec<Pod>> {
    wait(narrator, &format!("nodes for {set}"), async || {
        let pods = world.pods_of(set).await?;
        let placed: Vec<Pod> = pods.into_iter().filter(|pod| node(pod).is_some()).collect();
        Ok(if placed.len() == count {
            Seen::Yes(placed)
        } else {
            Seen::NotYet(format!("{} of {count} have one", placed.len()))
        })
    })
    .await
}

/// Takes the pods that run away, so that others find their devices free. The one that cannot run stays, to be asked about.
async fn clear(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let sets = format!("{SET} in (students,research)");
    let which = ListParams::default().labels(&sets);
    world.api::<Pod>().delete_collection(&DeleteParams::default(), &which).await?;
    wait(narrator, "the end of these pods", async || {
        let left = world.api::<Pod>().list(&which).await?.items.len();
        Ok(if left == 0 { Seen::Yes(()) } else { Seen::NotYet(format!("{left} are there")) })
    })
    .await
}
