//! A node that is taken away while a binding to it is on its way.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::{SCHEDULER, SET, node, waiting_pod};
use muster_tests::world::{Held, PATIENCE, Plan, Seen, Wire};
use serde_json::{Value, json};

use super::ledger::Ledger;
use crate::suite::workload::NPU;

const GANG: &str = "gang";
const OTHER: &str = "other";

/// Three nodes: another pod has one of them, so that a gang of two gets the other two.
struct Stage {
    ledger: Ledger,
    held: Held,
    /// Where the gang's first pod is.
    first: String,
    /// Where the second was to go. It is gone.
    vanished: String,
    /// What the other pod has.
    taken: String,
}

fn world() -> Plan {
    // A real API server shares its cores with much else: a lease must outlast its pauses.
    let lease = Duration::from_secs(if World::is_real() { 4 } else { 1 });
    World::new().nodes(3).coordinators(1).choices(Choices { lease, ..Choices::default() })
}

/// A job of two pods that take a node each, as a gang.
fn job() -> Value {
    let container = json!({"name": "main", "image": muster_tests::world::HOLD,
        "resources": {"limits": {NPU: "8"}, "requests": {NPU: "8"}}});
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": GANG, "annotations": {"kai.scheduler/batch-min-member": "2"}},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 9, "template": {
            "metadata": {"labels": {SET: GANG}},
            "spec": {"schedulerName": SCHEDULER, "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1, "containers": [container]}}}})
}

/// Holds the binding of the gang's second pod back, and takes its node away.
async fn vanish(world: &World, wire: &Wire) -> Result<Stage> {
    let ledger = Ledger::new(world, NPU).await?;
    world.queue("team", "", -1.0, -1.0).await?;
    world.pod_group(OTHER, "team", 1, json!({})).await?;
    world.create_object(waiting_pod(OTHER, 0, OTHER, NPU, 8)).await?;
    let taken = places(&world.placed(OTHER, 1).await?).pop_first().context("no node")?;
    let mut held = wire.hold_create("/binding");
    world.create_object(job()).await?;
    tokio::time::timeout(PATIENCE, held.caught()).await.context("nothing is bound")??;
    let first = places(&world.placed(GANG, 1).await?).pop_first().context("no node")?;
    let kubelets = world.kubelets().context("no nodes")?;
    let mut rest = kubelets.nodes().filter(|node| ![&*first, &*taken].contains(&node.name()));
    let last = rest.next().context("three nodes")?;
    let vanished = last.name().to_owned();
    last.stop().await?;
    let nodes: Api<Node> = Api::all(world.client());
    nodes.delete(&vanished, &DeleteParams::default()).await?;
    world
        .until("the node is gone", async || {
            Ok(match nodes.get_opt(&vanished).await? {
                None => Seen::Yes(()),
                Some(_) => Seen::NotYet("it is there".to_owned()),
            })
        })
        .await?;
    Ok(Stage { ledger, held, first, vanished, taken })
}

/// Nodes of pods.
fn places(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(node).map(str::to_owned).collect()
}

/// Takes a pod away at once, as the cluster does some time after its node has gone.
async fn take_away(world: &World, pod: &str) -> Result<()> {
    world.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// Waits until both pods of the gang are on these nodes, and no other pod of it is there.
async fn until_on(world: &World, wanted: [&str; 2]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.into_iter().map(str::to_owned).collect();
    world
        .until("both pods have nodes that are there", async || {
            let pods = world.pods_of(GANG).await?;
            let now = places(&pods);
            let done = pods.len() == 2 && now == wanted;
            Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{now:?}")) })
        })
        .await
}

/// Waits until the gang's group says that it waits; the reason.
async fn until_no_room(world: &World) -> Result<()> {
    world
        .until("the reason NoRoom", async || {
            let pods = world.pods_of(GANG).await?;
            let group = pods.iter().find_map(|pod| pod.annotations().get("pod-group-name"));
            let Some(group) = group else { return Ok(Seen::NotYet("no group".to_owned())) };
            let head = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": group}});
            let group = world.object(&head).await?;
            let all = group.pointer("/status/conditions").and_then(Value::as_array);
            let waits = |one: &&Value| one["type"] == "Schedulable" && one["status"] == "False";
            let reason = all.and_then(|all| all.iter().find(waits)?["reason"].as_str());
            Ok(match reason {
                Some("NoRoom") => Seen::Yes(()),
                _ => Seen::NotYet(group["status"].to_string()),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_vanishes_under_a_binding_costs_its_pod_and_the_gang_is_made_whole_elsewhere()
-> Result<()> {
    world()
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            let stage = vanish(world, &wire).await?;
            // API servers do not look whether the node is there.
            ensure!(stage.held.release().await? == 201, "the binding is done");
            let pods = world.placed(GANG, 2).await?;
            let astray = pods.iter().find(|pod| node(pod) == Some(&stage.vanished));
            take_away(world, &astray.context("a pod on the node that is gone")?.name_any()).await?;

            // Nothing is free: the pod that the job makes in its place waits, and its group says why.
            until_no_room(world).await?;
            ensure!(places(&world.pods_of(GANG).await?) == BTreeSet::from([stage.first.clone()]));
            take_away(world, &format!("{OTHER}-0")).await?;
            until_on(world, [&stage.first, &stage.taken]).await?;
            stage.ledger.judge()
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_binding_to_a_node_that_vanished_loses_against_the_next_leaders() -> Result<()> {
    world()
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            let stage = vanish(world, &wire).await?;
            // Who decided is cut off, and the binding is still on its way when the next leader decides anew.
            wire.cut();
            let next = world.add_coordinator().await?;
            world.until_leads(next).await?;
            take_away(world, &format!("{OTHER}-0")).await?;
            until_on(world, [&stage.first, &stage.taken]).await?;
            ensure!(stage.held.release().await? == 409, "the pod has its node");
            until_on(world, [&stage.first, &stage.taken]).await?;
            stage.ledger.judge()
        })
        .await
}
