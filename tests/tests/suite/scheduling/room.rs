//! Room for those who are due it: reclaim, disruption budgets, and what is held while pods leave.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use muster_scheduling::bootstrap::queues;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::{Value, json};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_queue_and_a_group_have_is_none_again_when_their_pods_have_gone() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("some", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("some", 0, "some", NPU, 4)).await?;
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": "some"}});
            let all = queues(&world.client());
            let says = async |wanted: Value| {
                world
                    .until(&format!("{wanted} of devices in both"), async || {
                        let group = world.object(&group).await?;
                        let found = all.list(&ListParams::default()).await?.items;
                        let queue = found.iter().find(|queue| queue.name_any().ends_with("team"));
                        let queue = serde_json::to_value(queue.context("no queue")?)?;
                        let sums = [&group["status"]["resourcesStatus"], &queue["status"]]
                            .map(|status| [&status["requested"][NPU], &status["allocated"][NPU]]);
                        let done = sums.iter().flatten().all(|sum| **sum == wanted);
                        Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{sums:?}")) })
                    })
                    .await
            };
            says(json!("4")).await?;
            let at_once = DeleteParams::default().grace_period(0);
            world.api::<Pod>().delete("some-0", &at_once).await?;
            says(Value::Null).await
        })
        .await
}
