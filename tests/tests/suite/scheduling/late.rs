//! Words that come too late: a pod is said to wait while it is being given a node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use muster_program::heartbeat::Heartbeats;
use muster_runtime::ReconcileMetrics;
use muster_runtime::election::Fence;
use muster_runtime::events::Events;
use muster_runtime::writer::Writer;
use muster_scheduler::decisions::Decisions;
use muster_scheduler::reason::{Reason, Waiting};
use muster_scheduler_state::{Cluster, Object, Settings};
use muster_scheduling::status_writer::StatusWriter;
use muster_scheduling::{Context as SchedulingContext, Metrics, StatusView, grouper};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::waiting_pod;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::suite::workload::GPU;

/// What was decided of the group while its pod had no node.
fn waits(group: String) -> Decisions {
    let why = Waiting {
        reason: Reason::Other,
        message: "no room".to_owned(),
        pods: 1,
        placed: 0,
        needed: 1,
        nodes: Default::default(),
    };
    Decisions { reasons: [(group, why)].into(), ..Decisions::default() }
}

/// The condition `PodScheduled` of a pod.
fn scheduled(pod: &Pod) -> Result<Value> {
    let all = serde_json::to_value(&pod.status)?;
    let all = all["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == "PodScheduled").context("not there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_was_given_a_node_meanwhile_is_not_left_as_one_that_waits() -> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    // A kubelet would write the same condition, before or after.
    World::new()
        .run(async |world| {
            let waiting = world.create_object(waiting_pod("late", 0, "late", GPU, 1)).await?;
            let pods: Api<Pod> = world.api();
            let node = "without-a-kubelet";
            let body = serde_json::from_value(json!({"metadata": {"name": node}}))?;
            Api::<Node>::all(world.client()).create(&PostParams::default(), &body).await?;
            let binding = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": "late-0"}, "target": {"kind": "Node", "name": node}});
            let params = PostParams::default();
            pods.create_subresource::<_, Value>("binding", "late-0", &params, &binding).await?;

            // The scheduler has not heard of it.
            let mut cluster = Cluster::new(Settings::default());
            let namespace = waiting["metadata"]["namespace"].as_str().unwrap_or_default();
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
                "metadata": {"name": "late", "namespace": namespace, "uid": "late"},
                "spec": {"minMember": 1, "queue": "team"}});
            cluster.put(Object::PodGroup(serde_json::from_value(group)?));
            cluster.put(Object::Pod(serde_json::from_value(waiting.clone())?));
            let fence = Fence::new(1, Instant::now() + Duration::from_secs(600));
            let context = SchedulingContext {
                writer: Writer::new(world.client(), fence),
                events: Events::new(world.client(), "test"),
                metrics: Metrics::default(),
                grouping: grouper::Metrics::default(),
                reconciles: ReconcileMetrics::default(),
                shown: StatusView::default(),
                heartbeats: Heartbeats::default(),
            };
            let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
            StatusWriter::new(context).write_changes(
                &cluster,
                &waits(format!("{namespace}/late")),
                now,
            );

            // Its time says that this is what was written last, by whom.
            let told = world
                .until("the condition was put right", async || {
                    let one = scheduled(&pods.get("late-0").await?)?;
                    let done = one["status"] == "True"
                        && one["lastTransitionTime"] == "2026-01-01T00:00:00Z";
                    Ok(if done { Seen::Yes(one) } else { Seen::NotYet(one.to_string()) })
                })
                .await?;
            ensure!(told["reason"].is_null() && told["message"].is_null(), "{told}");
            Ok(())
        })
        .await
}
