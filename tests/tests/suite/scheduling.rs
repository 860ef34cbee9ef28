//! Pods that Muster's scheduler places.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use muster_tests::World;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::json;

use super::workload::NPU;

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
            ensure!(
                waiting.iter().all(|pod| node(pod).is_none()),
                "two nodes have no room for three pods of eight"
            );
            for pod in placed {
                world.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default()).await?;
            }
            Ok(())
        })
        .await
}
