//! Clusters where somebody else writes the pods' annotations, as the seed of the product assumes.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use muster_coordinator::ranktables::{DeviceSource, Settings};
use muster_ranktable::inject::{Delivery, Injection};
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::workload::{NPU, pod, template};

/// The annotation of the seed's example: eight devices of a server, addresses from here on.
pub fn annotation(pod: &str, server: &str, first: u32) -> String {
    let device = |id: u32| json!({"device_id": id.to_string(), "device_ip": format!("10.20.0.{}", first + id)});
    let devices: Vec<Value> = (0..8).map(device).collect();
    json!({"pod_name": pod, "server_id": server, "devices": devices}).to_string()
}

/// The table that the seed's example ends with.
pub fn expected() -> Value {
    let server = |id: &str, address: u32, rank: u32| {
        let device = |at: u32| {
            json!({"device_id": at.to_string(), "device_ip": format!("10.20.0.{}", address + at),
                "rank_id": (rank + at).to_string()})
        };
        json!({"server_id": id, "device": (0..8).map(device).collect::<Vec<_>>()})
    };
    json!({"version": "1.0", "server_count": "2", "status": "completed",
        "server_list": [server("192.168.1.10", 2, 0), server("192.168.1.11", 10, 8)]})
}

/// Annotations are the truth, and tables come by ConfigMap volumes.
pub fn as_the_seed_has_it() -> Choices {
    let defaults = Choices::default();
    Choices {
        ranktable: Settings { devices: DeviceSource::Annotation, ..defaults.ranktable },
        injection: Injection { delivery: Delivery::ConfigMap, ..defaults.injection },
        ..Choices::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_annotations_as_the_truth_the_seeds_example_gives_the_seeds_table() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(1)
        .choices(as_the_seed_has_it())
        .run(async |world| {
            for (number, server, first) in [(0, "192.168.1.10", 2), (1, "192.168.1.11", 10)] {
                let name = format!("qwen-inference-worker-{number}");
                let mut worker = template(HOLD, NPU, 8, json!({}));
                worker["metadata"]["labels"]["muster.dev/rank-group"] =
                    json!("qwen-inference-worker");
                worker["metadata"]["annotations"] = json!({
                    "muster.dev/rank-group-size": "2",
                    "kthena.io/ranktable-template": "ascend-ranktable-template-mindie-role",
                });
                world.create_object(pod(&name, worker)).await?;
                // Somebody else annotates it later.
                let change = json!({"metadata": {"annotations": {
                    "ascend.com/ranktable": annotation(&name, server, first)}}});
                world
                    .api::<Pod>()
                    .patch(&name, &PatchParams::default(), &Patch::Merge(change))
                    .await?;
            }
            world.pods_in("muster.dev/rank-group=qwen-inference-worker", 2, "Running").await?;
            let maps = world.api::<ConfigMap>();
            let text = world
                .until("the table", async || {
                    let map = maps.get_opt("qwen-inference-worker-ranktable").await?;
                    let text = map.and_then(|map| map.data?.remove("ranktable.json"));
                    Ok(match text {
                        Some(text) if !text.is_empty() => Seen::Yes(text),
                        other => Seen::NotYet(format!("{other:?}")),
                    })
                })
                .await?;
            let table: Value = serde_json::from_str(&text).context("no JSON")?;
            assert_eq!(table, expected());
            Ok(())
        })
        .await
}
