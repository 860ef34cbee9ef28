//! Why something waits: on the group, on its pods, in events; once for each reason.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::waiting_pod;
use serde_json::{Value, json};

use crate::suite::workload::NPU;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_cannot_run_says_the_one_reason_with_numbers_and_says_it_once() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("impossible", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("impossible", 0, "impossible", NPU, 16)).await?;
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": "impossible"}});
            let condition = world
                .until("the group says why", async || {
                    let group = world.object(&group).await?;
                    let all = group.pointer("/status/conditions").and_then(Value::as_array);
                    let found = all.into_iter().flatten().find(|one| one["type"] == "Schedulable");
                    Ok(match found {
                        Some(one) => Seen::Yes(one.clone()),
                        None => Seen::NotYet(group["status"].to_string()),
                    })
                })
                .await?;
            ensure!(condition["status"] == "False", "{condition}");
            ensure!(condition["reason"] == "LargerThanAnyNode", "{condition}");
            let pods: Api<Pod> = world.api();
            world
                .until("the pod says why", async || {
                    let pod = pods.get("impossible-0").await?;
                    let status = serde_json::to_value(&pod.status)?;
                    Ok(if status.to_string().contains("LargerThanAnyNode") {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(status.to_string())
                    })
                })
                .await?;
            // Another gang comes and goes through many cycles; nothing is said twice.
            world.pod_group("other", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("other", 0, "other", NPU, 8)).await?;
            world.placed("other", 1).await?;
            let events: Api<Event> = world.api();
            let all = events.list(&ListParams::default()).await?.items;
            let about = |kind: &str| {
                let of = |event: &&Event| {
                    event.regarding.as_ref().is_some_and(|one| {
                        one.kind.as_deref() == Some(kind)
                            && one
                                .name
                                .as_deref()
                                .is_some_and(|name| name.starts_with("impossible"))
                    })
                };
                all.iter().filter(of).count()
            };
            ensure!(about("PodGroup") == 1, "events of the group: {}", about("PodGroup"));
            ensure!(about("Pod") <= 1, "events of the pod: {}", about("Pod"));
            Ok(())
        })
        .await
}
