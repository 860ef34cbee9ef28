//! Real agents on simulated nodes, with their own tokens and permissions, over TLS to a hub.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus, Secret};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use muster_agent::names;
use muster_hub::Hub;
use muster_proto::annotation::{self, PodRanktable};
use muster_proto::delivery::{Delivery, Place, generation_file};
use muster_proto::device::{Health, Vendor};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::{HOLD, Seen, agents};
use serde_json::{Value, json};

use super::workload::{GPU, NPU, pod};

const NPU_310P: &str = "huawei.com/Ascend310P";
/// An annotation that is not the agent's.
const OTHERS: &str = "example.com/others";

/// A pod that holds devices while its init container waits.
fn waiting(name: &str, resource: &str, count: u32, profile: Profile) -> Value {
    let template = json!({
        "metadata": { "labels": { names::RANK_GROUP: "g" }, "annotations": { OTHERS: "theirs" } },
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": { "node.kubernetes.io/instance-type": profile.name() },
            "initContainers": [{ "name": "wait", "image": HOLD }],
            "containers": [{ "name": "work", "image": "i",
                "resources": { "limits": { resource: count.to_string() } } }],
            "volumes": [{ "name": "ranktable", "emptyDir": {} }],
        },
    });
    pod(name, template)
}

fn table_of(pod: &Pod) -> Option<Result<PodRanktable, annotation::AnnotationError>> {
    let annotations = pod.metadata.annotations.as_ref()?;
    Some(PodRanktable::parse(annotations.get(annotation::KEY)?))
}

async fn annotated(world: &World, name: &str) -> Result<(Pod, PodRanktable)> {
    let pods = world.api::<Pod>();
    world
        .until(&format!("the annotation of pod {name}"), async || {
            let pod = pods.get(name).await?;
            Ok(match table_of(&pod) {
                Some(table) => Seen::Yes((pod, table?)),
                None => Seen::NotYet(format!("{:?}", pod.status.and_then(|status| status.phase))),
            })
        })
        .await
}

fn node_of(pod: &Pod) -> Result<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")
}

fn root_of(world: &World, node: &str) -> Result<PathBuf> {
    let kubelets = world.kubelets().context("no nodes")?;
    Ok(kubelets.node(node).context("no such node")?.spec().root.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_every_hardware_say_what_they_hold_before_they_run() -> Result<()> {
    let kinds = [
        (Profile::Ascend910b8, NPU, 8),
        (Profile::Ascend910a8, NPU, 4),
        (Profile::AscendA316, NPU, 16),
        (Profile::Ascend310p, NPU_310P, 2),
        (Profile::NvidiaH1008, GPU, 4),
    ];
    let plan = kinds.iter().fold(World::new().agents(), |plan, kind| plan.nodes_of(kind.0, 1));
    plan.run(async |world| {
        for (profile, resource, count) in kinds {
            let name = format!("p-{profile}");
            world.create_object(waiting(&name, resource, count, profile)).await?;
            let (pod, table) = annotated(world, &name).await?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            assert_eq!(phase, Some("Pending"), "{name} is told before it runs");
            assert_eq!(table.pod_name, name);
            let held = world.devices(&pod).await?;
            let held: usize = held.values().map(Vec::len).sum();
            assert_eq!((table.devices.len(), held), (count as usize, count as usize), "{name}");
            let node = node_of(&pod)?;
            let inventory = world.agent(&node)?.status().snapshot().inventory;
            for device in &table.devices {
                let id = device.device_id.parse()?;
                let vendor = inventory.devices.first().context("no devices")?.vendor;
                let known = inventory.device(vendor, id).context("a device that is not there")?;
                let ip = known.ip.map(|ip| ip.to_string()).unwrap_or_default();
                assert_eq!(device.device_ip, ip, "{name} device {id}");
                assert_eq!(device.uuid, known.uuid, "{name} device {id}");
                let sdid = known.super_device_id.map(|id| id.to_string());
                assert_eq!(device.super_device_id, sdid, "{name} device {id}");
            }
            let addresses = table.devices.iter().filter(|device| !device.device_ip.is_empty());
            let expected = if profile == Profile::Ascend310p { 0 } else { count as usize };
            assert_eq!(addresses.count(), expected, "{name}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_travels_from_the_hub_into_a_pods_volume_and_survives_the_agents_restart()
-> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(waiting("w", NPU, 8, Profile::Ascend910b8)).await?;
            let (pod, _) = annotated(world, "w").await?;
            let (node, uid) = (node_of(&pod)?, pod.metadata.uid.context("no uid")?);
            let hub = world.hub()?.clone();
            world
                .until("the pod at the hub", async || {
                    let pods = hub.pods();
                    let known = pods
                        .get(&node)
                        .is_some_and(|pods| pods.iter().any(|one| one.pod.uid == uid));
                    Ok(if known { Seen::Yes(()) } else { Seen::NotYet(format!("{pods:?}")) })
                })
                .await?;
            let place = Place {
                pod_uid: uid.clone(),
                volume: "ranktable".into(),
                file: "ranktable.json".into(),
            };
            let folder = root_of(world, &node)?.join(format!(
                "var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/ranktable"
            ));
            for generation in [1, 2] {
                let table = format!("{{\"status\":\"completed\",\"generation\":{generation}}}");
                let blob = hub.pack(table.as_bytes())?;
                let order = Delivery {
                    place: place.clone(),
                    generation,
                    digest: blob.digest(),
                    mode: 0o644,
                    group: None,
                };
                hub.deliver(&node, order, blob)?;
                world
                    .until("the table in the volume", async || {
                        let there =
                            fs::read_to_string(folder.join("ranktable.json")).unwrap_or_default();
                        let number =
                            fs::read_to_string(folder.join(generation_file("ranktable.json")));
                        let number = number.unwrap_or_default().trim().to_owned();
                        Ok(match there == table && number == generation.to_string() {
                            true => Seen::Yes(()),
                            false => Seen::NotYet(format!("{there:?} {number:?}")),
                        })
                    })
                    .await?;
                world
                    .until("the hub's knowledge of it", async || {
                        let tables = hub.tables(&node);
                        let there = tables.as_ref().is_some_and(|tables| {
                            tables
                                .delivered
                                .iter()
                                .any(|one| one.place == place && one.generation == generation)
                        });
                        Ok(if there { Seen::Yes(()) } else { Seen::NotYet(format!("{tables:?}")) })
                    })
                    .await?;
            }
            world.restart_agent(&node).await?;
            let tables = world.agent(&node)?.status().snapshot().tables;
            assert_eq!(tables.iter().map(|table| table.generation).collect::<Vec<_>>(), [Some(2)]);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_vanishes_is_faulty_at_the_hub_and_its_return_is_known_too() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            let node = world.agents()?.iter().next().context("no agent")?.0.clone();
            let file = root_of(world, &node)?.join("dev/davinci3");
            let hub = world.hub()?;
            let health = async |wanted: fn(&Health) -> bool| {
                world
                    .until("the health of NPU 3 at the hub", async || {
                        let inventory = hub.inventory(&node).filter(|inventory| inventory.settled);
                        let device =
                            inventory.as_ref().and_then(|all| all.device(Vendor::Ascend, 3));
                        Ok(match device {
                            Some(device) if wanted(&device.health) => Seen::Yes(()),
                            other => {
                                Seen::NotYet(format!("{:?}", other.map(|device| &device.health)))
                            }
                        })
                    })
                    .await
            };
            health(Health::usable).await?;
            fs::remove_file(&file)?;
            health(|health| !health.usable()).await?;
            fs::write(&file, "")?;
            health(Health::usable).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_can_change_one_annotation_of_its_own_pods_and_nothing_else() -> Result<()> {
    World::new()
        .nodes(2)
        .strict(true)
        .agents()
        .run(async |world| {
            for name in ["a", "b"] {
                world.create_object(waiting(name, NPU, 8, Profile::Ascend910b8)).await?;
            }
            let mut nodes = BTreeMap::new();
            for name in ["a", "b"] {
                nodes.insert(name, node_of(&annotated(world, name).await?.0)?);
            }
            assert_ne!(nodes["a"], nodes["b"]);
            let agent = world.client_as(&world.agent_token(&nodes["a"], None).await?)?;
            let pods: Api<Pod> = Api::namespaced(agent.clone(), world.namespace());
            let patch = async |pod: &str, patch: Value| {
                let params = PatchParams::default();
                match pods.patch(pod, &params, &Patch::Merge(patch)).await {
                    Ok(_) => Ok(String::new()),
                    Err(kube::Error::Api(refused)) => Ok(refused.message.clone()),
                    Err(error) => Err(anyhow::Error::from(error)),
                }
            };
            let own = json!({ "metadata": { "annotations": { annotation::KEY: "{}" } } });
            world
                .until("the policy to be in force", async || {
                    let said = patch("b", own.clone()).await?;
                    Ok(match said.contains("may not change a pod of node") {
                        true => Seen::Yes(()),
                        false => Seen::NotYet(said),
                    })
                })
                .await?;
            assert_eq!(patch("a", own.clone()).await?, "", "its own pod's annotation");
            const ONE: &str = "no annotation but";
            const ELSE: &str = "nothing of a pod but";
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"});
            for (change, word) in [
                (json!({ "metadata": { "annotations": { "other": "x" } } }), ONE),
                // Neither changed, nor taken away, nor beside the one that it may change.
                (json!({ "metadata": { "annotations": { OTHERS: "x" } } }), ONE),
                (json!({ "metadata": { "annotations": { OTHERS: null } } }), ONE),
                (json!({ "metadata": { "annotations": { annotation::KEY: "{}", OTHERS: "x" } } }), ONE),
                (json!({ "metadata": { "labels": { names::RANK_GROUP: "other" } } }), ELSE),
                (json!({ "metadata": { "labels": { names::RANK_GROUP: null } } }), ELSE),
                (json!({ "metadata": { "labels": { "other": "x" } } }), ELSE),
                (json!({ "metadata": { "finalizers": ["x.example/y"] } }), ELSE),
                (json!({ "metadata": { "ownerReferences": [owner] } }), ELSE),
                (json!({ "spec": { "activeDeadlineSeconds": 5 } }), ELSE),
                // This nobody may change.
                (json!({ "spec": { "nodeName": nodes["b"] } }), "spec"),
            ] {
                let said = patch("a", change.clone()).await?;
                assert!(!said.is_empty() && said.contains(word), "{change}: {said:?}");
            }
            let images = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "evil" }]);
            let images = Patch::Json::<Pod>(serde_json::from_value(images)?);
            refused(ELSE, pods.patch("a", &PatchParams::default(), &images).await)?;

            // The status is not there for it: neither beside its annotation nor by itself.
            let before = world.api::<Pod>().get("a").await?.status;
            let mut both = own.clone();
            both["status"] = json!({ "phase": "Failed", "podIP": "6.6.6.6" });
            assert_eq!(patch("a", both.clone()).await?, "", "what it says of the status is dropped");
            let after = world.api::<Pod>().get("a").await?.status;
            let ends = |status: &Option<PodStatus>| {
                status.as_ref().map(|status| (status.phase.clone(), status.pod_ip.clone()))
            };
            assert_eq!(ends(&before), ends(&after), "the status");
            let status = Patch::Merge(both);
            for pod in ["a", "b"] {
                refused("pods/status", pods.patch_status(pod, &PatchParams::default(), &status).await)?;
            }
            // A patch may not bring a pod into being.
            let new = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "new" },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } });
            let apply = PatchParams::apply("muster-agent");
            refused("cannot create", pods.patch("new", &apply, &Patch::Apply(new)).await)?;
            for pod in ["a", "b"] {
                refused("cannot delete", pods.delete(pod, &DeleteParams::default()).await)?;
                refused("pods/eviction", pods.evict(pod, &EvictParams::default()).await)?;
            }
            let all = ListParams::default();
            refused("cannot deletecollection", pods.delete_collection(&DeleteParams::default(), &all).await)?;
            let api: Api<Node> = Api::all(agent.clone());
            let label = Patch::Merge(json!({ "metadata": { "labels": { "x": "y" } } }));
            for node in nodes.values() {
                refused("cannot patch", api.patch(node, &PatchParams::default(), &label).await)?;
                refused("nodes/status", api.patch_status(node, &PatchParams::default(), &label).await)?;
            }
            let secrets: Api<Secret> = Api::namespaced(agent.clone(), agents::NAMESPACE);
            refused("cannot list", secrets.list(&all).await)?;

            // A token of the account that is bound to no node may change nothing at all.
            let unbound = world.client_as(&world.unbound_agent_token().await?)?;
            let pods: Api<Pod> = Api::namespaced(unbound, world.namespace());
            let own = Patch::Merge(own);
            refused("the agent of node '' may not", pods.patch("a", &PatchParams::default(), &own).await)?;
            Ok(())
        })
        .await
}

/// Whether the server refuses something, and says this word.
fn refused<T>(word: &str, answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(refused)) if refused.message.contains(word) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("it does not say {word:?}")),
        Ok(_) => anyhow::bail!("this should have been refused with {word:?}"),
    }
}

/// Waits until the hub knows a node's devices, or does not.
async fn until_known(world: &World, hub: &Hub, node: &str, wanted: bool) -> Result<()> {
    world
        .until("what the hub knows of the node", async || {
            let is_known = hub.inventory(node).is_some();
            Ok(match is_known == wanted {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("known: {is_known}")),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_the_cluster_is_forgotten_with_its_devices() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: the nodes of a real cluster belong to all worlds");
        return Ok(());
    }
    World::new()
        .nodes(2)
        .agents()
        .coordinators(1)
        .run(async |world| {
            let hub = world.hub()?;
            let node = world.kubelets().and_then(|all| all.nodes().next()).context("a node")?;
            let name = node.name().to_owned();
            until_known(world, &hub, &name, true).await?;
            node.stop().await?;
            Api::<Node>::all(world.client()).delete(&name, &DeleteParams::default()).await?;
            world.agents_mut()?.end(&name).await?;
            until_known(world, &hub, &name, false).await
        })
        .await
}
