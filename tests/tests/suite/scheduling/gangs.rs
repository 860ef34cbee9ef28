//! Gangs: placed at once, or not at all; made by hand, or by what owns the pods.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use muster_tests::World;
use muster_tests::world::scheduling::{SCHEDULER, SET, node, waiting_pod};
use serde_json::json;

use crate::suite::workload::NPU;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_is_placed_at_once_and_one_that_does_not_fit_waits_whole() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("large", "team", 3, json!({})).await?;
            for number in 0..3 {
                world.create_object(waiting_pod("large", number, "large", NPU, 8)).await?;
            }
            world.pod_group("small", "team", 4, json!({})).await?;
            for number in 0..4 {
                world.create_object(waiting_pod("small", number, "small", NPU, 4)).await?;
            }
            let placed = world.placed("small", 4).await?;
            let nodes: BTreeSet<_> = placed.iter().filter_map(node).collect();
            ensure!(nodes.len() == 2, "{nodes:?}");
            let waiting = world.pods_of("large").await?;
            let none = waiting.iter().all(|pod| node(pod).is_none());
            ensure!(none, "two nodes have no room for three pods of eight devices");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_job_become_a_gang_by_themselves_and_the_mark_rides_on_the_binding() -> Result<()>
{
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let container = json!({"name": "main", "image": muster_tests::world::HOLD,
                "resources": {"limits": {NPU: "2"}, "requests": {NPU: "2"}}});
            world
                .create_object(json!({"apiVersion": "batch/v1", "kind": "Job",
                    "metadata": {"name": "train"},
                    "spec": {"parallelism": 3, "completions": 3, "template": {
                        "metadata": {"labels": {SET: "train"}},
                        "spec": {"schedulerName": SCHEDULER, "restartPolicy": "Never",
                            "containers": [container]}}}}))
                .await?;
            let pods = world.placed("train", 3).await?;
            let groups: BTreeSet<_> = pods
                .iter()
                .filter_map(|pod| pod.annotations().get("pod-group-name").cloned())
                .collect();
            ensure!(groups.len() == 1 && pods.len() == 3, "{groups:?}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_goes_on_where_the_last_one_was_killed() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(2)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("first", "team", 2, json!({})).await?;
            for number in 0..2 {
                world.create_object(waiting_pod("first", number, "first", NPU, 8)).await?;
            }
            world.placed("first", 2).await?;
            world.pod_group("second", "team", 2, json!({})).await?;
            for number in 0..2 {
                world.create_object(waiting_pod("second", number, "second", NPU, 8)).await?;
            }
            let leader = world.coordinators()?.leader().map(|running| running.number);
            let leader = leader.context("nobody leads")?;
            world.coordinators_mut()?.kill(leader)?;
            for pod in world.pods_of("first").await? {
                world.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default()).await?;
            }
            let placed = world.placed("second", 2).await?;
            let nodes: BTreeSet<_> = placed.iter().filter_map(node).collect();
            ensure!(nodes.len() == 2, "no device is given twice: {nodes:?}");
            Ok(())
        })
        .await
}
