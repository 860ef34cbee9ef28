//! Queues share each kind of accelerators by itself, in a cluster that has several.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::ListParams;
use muster_sandbox::hardware::Profile;
use muster_scheduling::bootstrap::queues;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::json;

const GPU: &str = "nvidia.com/gpu";
const NPU: &str = "huawei.com/Ascend910";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_npus_do_not_keep_a_queue_from_its_share_of_gpus() -> Result<()> {
    World::new()
        .bare_nodes_of(Profile::NvidiaH1008, 2)
        .bare_nodes_of(Profile::Ascend910b8, 2)
        .coordinators(1)
        .run(async |world| {
            world.queue("all", "", -1.0, -1.0).await?;
            world.queue("first", "all", 0.0, -1.0).await?;
            world.queue("second", "all", 0.0, -1.0).await?;
            for number in 0..8 {
                let group = format!("first-{number}");
                world.pod_group(&group, "first", 1, json!({})).await?;
                world.create_object(waiting_pod("first", number, &group, GPU, 2)).await?;
            }
            world.placed("first", 8).await?;
            for number in 0..8 {
                let group = format!("second-{number}");
                world.pod_group(&group, "second", 1, json!({})).await?;
                world.create_object(waiting_pod("second", number, &group, GPU, 2)).await?;
            }
            let placed = world.placed("second", 4).await?;
            ensure!(placed.iter().all(|pod| node(pod).is_some()));
            let all = queues(&world.client());
            world
                .until("both queues are due 8 GPUs", async || {
                    let found = all.list(&ListParams::default()).await?.items;
                    let mut says = Vec::new();
                    for name in ["first", "second"] {
                        let queue = found.iter().find(|queue| queue.name_any().ends_with(name));
                        let queue = serde_json::to_value(queue.context("no queue")?)?;
                        says.push(queue["status"]["fairShare"]["milliDevices"].clone());
                    }
                    let wanted = json!({GPU: 8000, NPU: 0});
                    let done = says.iter().all(|share| *share == wanted);
                    Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{says:?}")) })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_a_kind_holds_for_that_kind_alone() -> Result<()> {
    World::new()
        .bare_nodes_of(Profile::NvidiaH1008, 1)
        .bare_nodes_of(Profile::Ascend910b8, 1)
        .coordinators(1)
        .run(async |world| {
            let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
            let few = json!({"quota": 0, "overQuotaWeight": 1, "limit": 4});
            let resources = json!({"cpu": free, "memory": free, "gpu": free, NPU: few});
            let queue = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
                "metadata": {"name": "team"}, "spec": {"resources": resources}});
            world.create_object(queue).await?;
            for number in 0..2 {
                for (set, kind) in [("gpus", GPU), ("npus", NPU)] {
                    let group = format!("{set}-{number}");
                    world.pod_group(&group, "team", 1, json!({})).await?;
                    world.create_object(waiting_pod(set, number, &group, kind, 4)).await?;
                }
            }
            world.placed("gpus", 2).await?;
            world.placed("npus", 1).await?;
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"});
            world
                .until(
                    "the group that waits says which kind its queue has too many of",
                    async || {
                        let mut says = Vec::new();
                        for number in 0..2 {
                            let mut group = group.clone();
                            group["metadata"] = json!({"name": format!("npus-{number}")});
                            says.push(world.object(&group).await?["status"].to_string());
                        }
                        let told = |status: &String| status.contains(&format!("may have 4 {NPU}"));
                        Ok(if says.iter().any(told) {
                            Seen::Yes(())
                        } else {
                            Seen::NotYet(format!("{says:?}"))
                        })
                    },
                )
                .await
        })
        .await
}
