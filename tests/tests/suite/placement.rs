//! Pods that wait for devices.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::api::DeleteParams;
use muster_tests::World;
use muster_tests::world::{Seen, jobset::phase};
use serde_json::json;

use super::workload::{NPU, pod, template};

fn unschedulable(pod: &Pod) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?.iter();
    let scheduled = |c: &&PodCondition| c.type_ == "PodScheduled" && c.status == "False";
    conditions.clone().find(scheduled).cloned()
}

async fn running(world: &World, name: &str) -> Result<Pod> {
    let pods = world.api::<Pod>();
    world
        .until(&format!("pod {name} running"), async || {
            let pod = pods.get(name).await?;
            Ok(match phase(&pod) {
                "Running" => Seen::Yes(pod),
                _ => Seen::NotYet(serde_json::to_string(&pod.status)?),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_asks_for_too_many_devices_waits_until_a_node_frees_them() -> Result<()> {
    World::new()
        .nodes(1)
        .run(async |world| {
            world.create_object(pod("first", template("i", NPU, 6, json!({})))).await?;
            let first = running(world, "first").await?;
            world.create_object(pod("second", template("i", NPU, 4, json!({})))).await?;
            let pods = world.api::<Pod>();
            let refusal = world
                .until("a word of the scheduler", async || {
                    let pod = pods.get("second").await?;
                    Ok(match unschedulable(&pod) {
                        Some(refusal) => Seen::Yes((refusal, pod)),
                        None => Seen::NotYet(serde_json::to_string(&pod.status)?),
                    })
                })
                .await?;
            let (refusal, second) = refusal;
            assert_eq!(refusal.reason.as_deref(), Some("Unschedulable"));
            let message = refusal.message.unwrap_or_default();
            if World::is_real() {
                // Nodes of others may be there too.
                assert!(message.contains("Insufficient huawei.com/Ascend910"), "{message}");
            } else {
                let begin = "0/1 nodes are available: 1 Insufficient huawei.com/Ascend910.";
                assert!(message.starts_with(begin), "{message}");
            }
            assert_eq!(phase(&second), "Pending");
            assert_eq!(second.spec.and_then(|spec| spec.node_name), None);
            assert_eq!(world.devices(&first).await?[NPU].len(), 6);

            pods.delete("first", &DeleteParams::default()).await?;
            let second = running(world, "second").await?;
            assert_eq!(world.devices(&second).await?[NPU].len(), 4);
            Ok(())
        })
        .await
}
