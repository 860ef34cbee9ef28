//! Room for those who are due it: reclaim, disruption budgets, and what is held while pods leave.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use muster_tests::World;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::json;

use crate::suite::workload::NPU;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_starved_queue_gets_back_what_is_its_own() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(1)
        .run(async |world| {
            world.queue("all", "", -1.0, -1.0).await?;
            world.queue("greedy", "all", 0.0, -1.0).await?;
            world.queue("starved", "all", 8.0, -1.0).await?;
            for number in 0..2 {
                let group = format!("greedy-{number}");
                world.pod_group(&group, "greedy", 1, json!({})).await?;
                world.create_object(waiting_pod("greedy", number, &group, NPU, 8)).await?;
            }
            let before = world.placed("greedy", 2).await?;
            world.pod_group("due", "starved", 2, json!({})).await?;
            for number in 0..2 {
                world.create_object(waiting_pod("due", number, "due", NPU, 4)).await?;
            }
            let placed = world.placed("due", 2).await?;
            let nodes: BTreeSet<_> = placed.iter().filter_map(node).collect();
            ensure!(nodes.len() == 1, "one pod of eight devices is enough: {nodes:?}");
            let left = world.pods_of("greedy").await?;
            ensure!(left.len() + 1 == before.len(), "{} of {} are left", left.len(), before.len());
            Ok(())
        })
        .await
}
