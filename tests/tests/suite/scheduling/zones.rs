//! NUMA zones, as the cluster reports them.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::waiting_pod;
use serde_json::{Value, json};

use super::live::create_shard;
use crate::suite::workload::GPU;

/// Where a pod says its zone.
const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";

/// The definition, as far as it is looked at.
fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}},
        "spec": {"group": "topology.node.k8s.io", "scope": "Cluster",
            "names": {"kind": "NodeResourceTopology", "listKind": "NodeResourceTopologyList",
                "plural": "noderesourcetopologies", "singular": "noderesourcetopology"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": open}}]}})
}

/// Two zones of four devices each, in a node that keeps a pod to one of them.
fn zones(node: &str) -> Value {
    let zone = |name: &str| {
        json!({"name": name, "type": "Node", "resources": [
            {"name": GPU, "capacity": "4", "allocatable": "4", "available": "4"}]})
    };
    json!({"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"}],
        "zones": [zone("node-0"), zone("node-1")]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_no_zone_waits_and_says_why_and_one_that_fits_is_placed() -> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            create_shard(world, json!({"plugins": {"numa": {"enabled": true}}})).await?;
            // The kind comes while the coordinator runs.
            world.create_object(definition()).await?;
            let nodes: Api<Node> = Api::all(world.client());
            for node in nodes.list(&ListParams::default()).await?.items {
                let name = node.metadata.name.unwrap_or_default();
                world.create_object(zones(&name)).await?;
            }
            world.pod_group("large", "team", 1, json!({})).await?;
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": "large"}});
            // The zones may reach the scheduler a moment later than a pod does: one that fits says whether they have.
            let pods: Api<Pod> = world.api();
            let mut number = 0;
            world
                .until("the scheduler knows the zones", async || {
                    number += 1;
                    let name = &format!("fits{number}");
                    world.pod_group(name, "team", 1, json!({})).await?;
                    world.create_object(waiting_pod(name, 0, name, GPU, 2)).await?;
                    let fits = world.placed(name, 1).await?;
                    let known = |pod: &Pod| pod.annotations().contains_key(PREDICTED);
                    if fits.iter().any(known) {
                        return Ok(Seen::Yes(()));
                    }
                    let gone = DeleteParams::default().grace_period(0);
                    pods.delete(&format!("{name}-0"), &gone).await?;
                    Ok(Seen::NotYet("its zone is not on the pod".to_owned()))
                })
                .await?;
            world.create_object(waiting_pod("large", 0, "large", GPU, 6)).await?;
            let why = world
                .until("the group says why", async || {
                    let group = world.object(&group).await?;
                    let all = group.pointer("/status/conditions").and_then(Value::as_array);
                    let found = all.into_iter().flatten().find(|one| one["type"] == "Schedulable");
                    Ok(match found {
                        Some(one) if one["status"] == "False" => Seen::Yes(one.clone()),
                        _ => Seen::NotYet(group["status"].to_string()),
                    })
                })
                .await?;
            let message = why["message"].as_str().unwrap_or_default();
            ensure!(message.contains("numa alignment"), "{why}");
            world.pod_group("small", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("small", 0, "small", GPU, 4)).await?;
            world.placed("small", 1).await.map(drop)
        })
        .await
}
