//! Queues stay within their limits while pods are taken from one another.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::json;

use crate::suite::workload::NPU;

const LIMIT: usize = 8;

/// Ten jobs of one pod and one device.
async fn ten(world: &World, set: &str, queue: &str, priority: &str) -> Result<()> {
    for number in 0..10 {
        let group = format!("{set}-{number}");
        world.pod_group(&group, queue, 1, json!({"priorityClassName": priority})).await?;
        world.create_object(waiting_pod(set, number, &group, NPU, 1)).await?;
    }
    Ok(())
}

/// How many pods of a set have a node and are to stay.
async fn staying(world: &World, set: &str) -> Result<usize> {
    let stays = |pod: &&Pod| node(pod).is_some() && pod.metadata.deletion_timestamp.is_none();
    Ok(world.pods_of(set).await?.iter().filter(stays).count())
}

/// Waits until two sets have so many pods each; they never have more than the limit together.
async fn shared(world: &World, sets: [&str; 2], wanted: [usize; 2]) -> Result<()> {
    world
        .until(&format!("{wanted:?} pods of {sets:?} have nodes"), async || {
            let [first, second] = sets;
            let has = [staying(world, first).await?, staying(world, second).await?];
            ensure!(has.iter().sum::<usize>() <= LIMIT, "{has:?} pods of {sets:?} have nodes");
            Ok(if has == wanted { Seen::Yes(()) } else { Seen::NotYet(format!("{has:?} have")) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reclaim_between_two_queues_never_takes_the_queue_above_over_its_limit() -> Result<()> {
    World::new()
        .nodes(3)
        .coordinators(1)
        .run(async |world| {
            world.queue("all", "", 8.0, LIMIT as f64).await?;
            world.queue("left", "all", 4.0, -1.0).await?;
            world.queue("right", "all", 4.0, -1.0).await?;
            world.prepare_sharing().await?;
            ten(world, "left", "left", "train").await?;
            shared(world, ["left", "right"], [LIMIT, 0]).await?;
            ten(world, "right", "right", "train").await?;
            shared(world, ["left", "right"], [4, 4]).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preemption_in_a_queue_never_takes_it_over_its_limit() -> Result<()> {
    World::new()
        .nodes(3)
        .coordinators(1)
        .run(async |world| {
            world.prepare_sharing().await?;
            world.queue("one", "", 8.0, LIMIT as f64).await?;
            ten(world, "low", "one", "train").await?;
            shared(world, ["low", "high"], [LIMIT, 0]).await?;
            ten(world, "high", "one", "build-preemptible").await?;
            shared(world, ["low", "high"], [0, LIMIT]).await
        })
        .await
}
