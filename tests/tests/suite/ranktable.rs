//! From devices to files: groups of pods get their tables.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::ResourceExt;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use muster_proto::annotation::KEY;
use muster_tests::World;
use muster_tests::world::jobset::selector;
use muster_tests::world::{HOLD, Seen, table_file};
use serde_json::{Value, json};

use super::workload::{NPU, jobset, pod, replicated, template};

pub const TEMPLATE: &str = "ascend-ranktable-template-mindie-role";
const CONDITIONS: &str = "muster.dev/ranktable-conditions";

/// The marks of a rank group on a pod template.
pub fn marked(mut template: Value, group: &str, size: usize, ranktable: &str) -> Value {
    template["metadata"]["labels"]["muster.dev/rank-group"] = json!(group);
    template["metadata"]["annotations"]["muster.dev/rank-group-size"] = json!(size.to_string());
    template["metadata"]["annotations"]["muster.dev/ranktable-template"] = json!(ranktable);
    template
}

pub fn worker(name: &str, group: &str, size: usize, devices: u32) -> Value {
    pod(name, marked(template(HOLD, NPU, devices, json!({})), group, size, TEMPLATE))
}

pub fn records(world: &World) -> Api<ConfigMap> {
    world.api()
}

pub fn table(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("ranktable.json")).map_or("", String::as_str)
}

pub fn condition(map: &ConfigMap, kind: &str) -> Option<(String, String, String)> {
    let list: Vec<Value> = serde_json::from_str(map.annotations().get(CONDITIONS)?).ok()?;
    let found = list.into_iter().find(|one| one["type"] == kind)?;
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((word("status"), word("reason"), word("message")))
}

pub fn generation(map: &ConfigMap) -> u64 {
    let text = map.annotations().get("muster.dev/ranktable-generation");
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Waits until everybody has at least this generation; the record.
pub async fn delivered(world: &World, group: &str, least: u64) -> Result<ConfigMap> {
    let name = format!("{group}-ranktable");
    world
        .until(&format!("generation {least} of {group} with all its pods"), async || {
            let Some(map) = records(world).get_opt(&name).await? else {
                return Ok(Seen::NotYet("no record".to_owned()));
            };
            let told = condition(&map, "RanktableDelivered");
            let done = told.as_ref().is_some_and(|(status, ..)| status == "True");
            Ok(match generation(&map) >= least && done {
                true => Seen::Yes(map),
                false => Seen::NotYet(format!(
                    "generation {}, {told:?}, {:?}",
                    generation(&map),
                    condition(&map, "RanktableReady")
                )),
            })
        })
        .await
}

/// The ranks of a table: server and device by rank.
pub fn ranks(text: &str) -> Result<BTreeMap<u32, (String, String)>> {
    let table: Value = serde_json::from_str(text).context("the table is no JSON")?;
    let mut ranks = BTreeMap::new();
    for server in table["server_list"].as_array().context("no servers")? {
        for device in server["device"].as_array().context("no devices")? {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let rank = word(&device["rank_id"]).parse()?;
            ranks.insert(rank, (word(&server["server_id"]), word(&device["device_id"])));
        }
    }
    Ok(ranks)
}

pub fn file_of(world: &World, pod: &Pod) -> Result<String> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")?;
    let root = world
        .kubelets()
        .context("no nodes")?
        .node(&node)
        .context("no such node")?
        .spec()
        .root
        .clone();
    let uid = pod.uid().context("no uid")?;
    Ok(std::fs::read_to_string(table_file(&root, &uid, "ranktable.json"))?)
}

pub async fn event(world: &World, reason: &str) -> Result<Event> {
    let events = world.api::<Event>();
    world
        .until(&format!("the event {reason}"), async || {
            let all = events.list(&ListParams::default()).await?.items;
            let reasons: Vec<String> =
                all.iter().filter_map(|event| event.reason.clone()).collect();
            let found = all.into_iter().find(|event| event.reason.as_deref() == Some(reason));
            Ok(found.map_or_else(|| Seen::NotYet(reasons.join(" ")), Seen::Yes))
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobset_of_two_nodes_gets_one_table_through_its_agents() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let params = WatchParams::default().labels("muster.dev/rank-group");
            let mut seen = Box::pin(records(world).watch(&params, "0").await?);
            let template = marked(template(HOLD, NPU, 8, json!({})), "train", 2, TEMPLATE);
            world.create_object(jobset("train", 0, vec![replicated("w", 1, 2, template)])).await?;

            let pods = world.pods_in(&selector("train"), 2, "Running").await?;
            let map = delivered(world, "train", 1).await?;
            let first = loop {
                match seen.next().await.context("the watch ended")?? {
                    WatchEvent::Added(map) => break map,
                    _ => continue,
                }
            };
            assert_eq!(table(&first), "", "the record is empty first");

            let ranks = ranks(table(&map))?;
            assert_eq!(ranks.keys().copied().collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
            let owner = &map.owner_references()[0];
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("JobSet", "train"));
            for pod in &pods {
                assert_eq!(file_of(world, pod)?, table(&map), "{}", pod.name_any());
                let spec = pod.spec.as_ref().context("no spec")?;
                let waits = spec
                    .init_containers
                    .iter()
                    .flatten()
                    .filter(|one| one.name == "wait-ranktable");
                assert_eq!(waits.count(), 1);
            }
            let told = condition(&map, "RanktableDelivered").context("no condition")?;
            assert_eq!(told.2, "2 of 2 pods have generation 1");
            for reason in ["RanktableConfigMapCreated", "RanktableGenerated", "RanktableDelivered"]
            {
                let event = event(world, reason).await?;
                assert_eq!(event.involved_object.kind.as_deref(), Some("JobSet"), "{reason}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_may_read_its_table_from_a_config_map_volume_in_the_seeds_shape() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            for name in ["a", "b"] {
                let mut worker = worker(name, "serve", 2, 8);
                worker["metadata"]["annotations"]["muster.dev/ranktable-delivery"] =
                    json!("configmap");
                world.create_object(worker).await?;
            }
            world.pods_in("muster.dev/rank-group=serve", 2, "Running").await?;
            let map = delivered(world, "serve", 1).await?;
            assert_eq!(ranks(table(&map))?.len(), 16);
            for pod in world.pods("muster.dev/rank-group=serve").await? {
                let spec = pod.spec.as_ref().context("no spec")?;
                let volume = spec.volumes.iter().flatten().find(|one| one.name == "ranktable");
                let source = volume.and_then(|volume| volume.config_map.as_ref());
                assert_eq!(source.map(|source| source.name.as_str()), Some("serve-ranktable"));
                let told = pod.annotations().get("muster.dev/ranktable-generation");
                assert_eq!(told.map(String::as_str), Some("1"), "the kubelet is made to look");
            }
            // One is replaced: nobody may read the table of the old members.
            world.api::<Pod>().delete("b", &DeleteParams::default()).await?;
            world
                .until("the old table gone", async || {
                    let map = records(world).get("serve-ranktable").await?;
                    let text = table(&map).to_owned();
                    Ok(if text.is_empty() { Seen::Yes(()) } else { Seen::NotYet(text) })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_annotation_that_a_tenant_has_forged_enters_no_table() -> Result<()> {
    World::new()
        .nodes(1)
        .strict(true)
        .agents()
        .run(async |world| {
            let tenant: Api<Pod> = Api::namespaced(world.tenant().await?, world.namespace());
            let forged = json!({"pod_name": "a", "server_id": "6.6.6.6",
                "devices": [{"device_id": "0", "device_ip": "6.6.6.6"}]});
            let mut worker = worker("a", "one", 1, 2);
            worker["metadata"]["annotations"][KEY] = json!(forged.to_string());
            let worker = serde_json::from_value(world.kept(worker))?;
            tenant.create(&PostParams::default(), &worker).await?;
            let map = delivered(world, "one", 1).await?;
            let held = ranks(table(&map))?;
            assert_eq!(held.len(), 2);
            ensure!(!table(&map).contains("6.6.6.6"), "{}", table(&map));
            // Also later. It may write on its own pod what it likes; the agent puts right what the pod says.
            let change =
                Patch::Merge(json!({"metadata": {"annotations": {KEY: forged.to_string()}}}));
            tenant.patch("a", &PatchParams::default(), &change).await?;
            world
                .until("the agent's word on the pod", async || {
                    let said = tenant.get("a").await?.annotations().get(KEY).cloned();
                    let right = said.as_ref().is_some_and(|said| !said.contains("6.6.6.6"));
                    Ok(if right { Seen::Yes(()) } else { Seen::NotYet(format!("{said:?}")) })
                })
                .await?;
            tenant.patch("a", &PatchParams::default(), &change).await?;
            let next = pod("b", marked(template(HOLD, NPU, 2, json!({})), "one", 2, TEMPLATE));
            let next = serde_json::from_value(world.kept(next))?;
            tenant.create(&PostParams::default(), &next).await?;
            let map = delivered(world, "one", 2).await?;
            ensure!(!table(&map).contains("6.6.6.6"), "{}", table(&map));
            assert_eq!(ranks(table(&map))?.len(), 4, "two devices each");
            // Where a pod runs and what address it has is not its to say.
            let status = Patch::Merge(json!({"status": {"podIP": "6.6.6.6", "hostIP": "6.6.6.6"}}));
            let refused = tenant.patch_status("a", &PatchParams::default(), &status).await;
            ensure!(matches!(&refused, Err(kube::Error::Api(no)) if no.code == 403), "{refused:?}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_pod_and_a_device_that_fails_make_new_generations_for_all() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            for name in ["a", "b"] {
                world.create_object(worker(name, "train", 2, 8)).await?;
            }
            let first = delivered(world, "train", 1).await?;
            world.api::<Pod>().delete("b", &DeleteParams::default().grace_period(0)).await?;
            world
                .until("the pod gone", async || {
                    let gone = world.api::<Pod>().get_opt("b").await?.is_none();
                    Ok(if gone { Seen::Yes(()) } else { Seen::NotYet("there".to_owned()) })
                })
                .await?;
            world.create_object(worker("c", "train", 2, 8)).await?;
            let second = delivered(world, "train", generation(&first) + 1).await?;
            assert_eq!(ranks(table(&second))?.len(), 16);
            for pod in world.pods("muster.dev/rank-group=train").await? {
                assert_eq!(file_of(world, &pod)?, table(&second), "{}", pod.name_any());
            }
            // A device of the first node fails: it is in no table any more.
            let pod = world.api::<Pod>().get("a").await?;
            let node = pod.spec.context("no spec")?.node_name.context("no node")?;
            let root = world
                .kubelets()
                .context("no nodes")?
                .node(&node)
                .context("none")?
                .spec()
                .root
                .clone();
            std::fs::remove_file(root.join("dev/davinci3"))?;
            let third = delivered(world, "train", generation(&second) + 1).await?;
            assert_eq!(ranks(table(&third))?.len(), 15);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_template_fails_its_own_group_alone_until_it_is_mended() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let name = format!("odd-{}", world.namespace());
            let source = |text: &str| {
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": "kthena-system"},
                    "data": {"ranktable-template": text}})
            };
            let templates: Api<ConfigMap> = Api::namespaced(world.client(), "kthena-system");
            let apply = PatchParams::apply("test").force();
            let bad = source("{{ .NoSuchField }}");
            templates.patch(&name, &apply, &Patch::Apply(&bad)).await?;
            world
                .until("the template known to the webhook", async || {
                    let odd =
                        pod("odd", marked(template(HOLD, NPU, 1, json!({})), "odd", 1, &name));
                    Ok(match world.create_object(odd).await {
                        Ok(_) => Seen::Yes(()),
                        Err(error) => Seen::NotYet(format!("{error:#}")),
                    })
                })
                .await?;
            world.create_object(worker("good", "good", 1, 1)).await?;
            delivered(world, "good", 1).await?;
            let event = event(world, "RanktableGenerationFailed").await?;
            let note = event.message.unwrap_or_default();
            ensure!(note.contains("NoSuchField") && note.contains(&name), "{note}");
            let good = source(
                r#"{"status":"completed","version":"1.0","server_count":"{{.ServerCount}}"}"#,
            );
            templates.patch(&name, &apply, &Patch::Apply(&good)).await?;
            delivered(world, "odd", 1).await?;
            templates.delete(&name, &DeleteParams::default()).await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_without_marks_are_left_alone_and_unknown_templates_are_refused_with_the_reason()
-> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            let plain = pod("plain", template(HOLD, NPU, 1, json!({})));
            world.create_object(plain).await?;
            let made = world.api::<Pod>().get("plain").await?;
            assert_eq!(
                made.spec.context("no spec")?.init_containers.map_or(0, |list| list.len()),
                0
            );
            let odd =
                pod("odd", marked(template(HOLD, NPU, 1, json!({})), "g", 1, "no-such-template"));
            let error = world.create_object(odd).await.err().context("it was created")?;
            let message = format!("{error:#}");
            ensure!(message.contains("kthena-system/no-such-template"), "{message}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_another_goes_on_where_it_was() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(2)
        .agents()
        .run(async |world| {
            for name in ["a", "b"] {
                world.create_object(worker(name, "train", 2, 8)).await?;
            }
            let first = delivered(world, "train", 1).await?;
            let leader = world.coordinators()?.leader().context("no leader")?.number;
            let killed = std::time::Instant::now();
            world.coordinators_mut()?.kill(leader)?;
            world
                .until("another leader", async || {
                    Ok(match world.coordinators()?.leader() {
                        Some(_) => Seen::Yes(()),
                        None => Seen::NotYet("nobody leads".to_owned()),
                    })
                })
                .await?;
            println!("another leads {:.2?} after the kill (lease 3 s)", killed.elapsed());
            // A pod is replaced after that: the next generation comes from the new leader.
            world.api::<Pod>().delete("b", &DeleteParams::default().grace_period(0)).await?;
            world.create_object(worker("c", "train", 2, 8)).await?;
            let second = delivered(world, "train", generation(&first) + 1).await?;
            println!(
                "and the next table was with all pods {:.2?} after the kill",
                killed.elapsed()
            );
            let epoch = |map: &ConfigMap| -> Option<u64> {
                map.annotations().get("muster.dev/ranktable-epoch")?.parse().ok()
            };
            ensure!(epoch(&second) > epoch(&first), "{:?} {:?}", epoch(&first), epoch(&second));
            for pod in world.pods("muster.dev/rank-group=train").await? {
                if pod.metadata.deletion_timestamp.is_none() {
                    assert_eq!(file_of(world, &pod)?, table(&second), "{}", pod.name_any());
                }
            }
            Ok(())
        })
        .await
}
