//! ModelServings of both shapes, from the object to the files that their pods read.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::world::serving::{condition_of, selector};
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::ranktable::{TEMPLATE, delivered, event, file_of, ranks, records, table};
use super::truth::{annotation, as_the_seed_has_it, expected};
use super::workload::{NPU, template};

const GROUP_TEMPLATE: &str = "ascend-ranktable-template-vllm-group";

/// A pod template with so many devices; none: a plain one.
fn pod(devices: u32) -> Value {
    let mut pod = template(HOLD, NPU, devices, json!({}));
    if devices == 0 {
        pod["spec"]["containers"][0]["resources"] = json!({});
    }
    pod["spec"]["restartPolicy"] = json!("Always");
    pod
}

/// A ModelServing as the seed writes it: roles by name, pods and devices.
pub fn seed(name: &str, ranktable: &str, roles: &[(&str, u32, u32)]) -> Value {
    let roles: Vec<Value> = roles
        .iter()
        .map(|(role, replicas, devices)| json!({"name": role, "replicas": replicas, "template": pod(*devices)}))
        .collect();
    json!({
        "apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": name, "annotations": {"kthena.io/ranktable-template": ranktable}},
        "spec": {"model": {"name": "Qwen2.5-7B-Instruct", "source": {"modelHub": "ModelScope"}}, "roles": roles},
    })
}

/// A ModelServing as Kthena's users write it: groups, and roles by name, instances, workers and devices.
pub fn kthena(name: &str, groups: u32, roles: &[(&str, u32, u32, u32)]) -> Value {
    let roles: Vec<Value> = roles
        .iter()
        .map(|(role, replicas, workers, devices)| {
            json!({"name": role, "replicas": replicas, "workerReplicas": workers,
                "entryTemplate": pod(*devices), "workerTemplate": pod(*devices)})
        })
        .collect();
    json!({
        "apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": name},
        "spec": {"replicas": groups, "schedulerName": "default-scheduler", "template": {"roles": roles}},
    })
}

pub fn with_tables(mut serving: Value, ranktable: &str) -> Value {
    serving["metadata"]["annotations"] = json!({"kthena.io/ranktable-template": ranktable});
    serving
}

/// All pods of a rank group that stay read the table that its record has; how many ranks it has.
pub async fn read(world: &World, group: &str, pods: usize) -> Result<usize> {
    let map = delivered(world, group, 1).await?;
    let mut members = world.pods(&format!("muster.dev/rank-group={group}")).await?;
    members.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    ensure!(members.len() == pods, "{} pods of {group}", members.len());
    for pod in &members {
        assert_eq!(file_of(world, pod)?, table(&map), "{}", pod.name_any());
    }
    let ranks = ranks(table(&map))?;
    assert_eq!(
        ranks.keys().copied().collect::<Vec<_>>(),
        (0..ranks.len() as u32).collect::<Vec<_>>()
    );
    Ok(ranks.len())
}

/// Changes fields of a ModelServing, by their paths.
async fn change(world: &World, shape: Shape, name: &str, fields: &[(&str, Value)]) -> Result<()> {
    let change = |(path, value): &(&str, Value)| json!({"op": "add", "path": path, "value": value});
    let patch: Vec<Value> = fields.iter().map(change).collect();
    let patch = Patch::<()>::Json(serde_json::from_value(json!(patch))?);
    world.servings(shape).patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn names(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_role_of_two_nodes_gets_its_table_as_the_seed_shows() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(1)
        .choices(as_the_seed_has_it())
        .run(async |world| {
            let mut serving = seed("qwen-inference", TEMPLATE, &[("worker", 2, 8)]);
            // The seed's own example has the mount already.
            serving["spec"]["roles"][0]["template"]["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "ranktable", "mountPath": "/etc/ascend/ranktable", "readOnly": true}]);
            world.create_object(serving).await?;
            let maps = records(world);
            let name = "qwen-inference-worker-ranktable";
            let empty = world
                .until("the empty ConfigMap", async || {
                    Ok(maps.get_opt(name).await?.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
                })
                .await?;
            assert_eq!(table(&empty), "");
            let owner = &empty.owner_references()[0];
            assert_eq!(
                (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str()),
                ("workload.kthena.io/v1alpha1", "ModelServing", "qwen-inference")
            );
            let pods = world.pods_in(&selector("qwen-inference"), 2, "Pending").await?;
            let two: BTreeSet<String> =
                (0..2).map(|at| format!("qwen-inference-worker-{at}")).collect();
            assert_eq!(names(&pods), two);
            let spec = serde_json::to_value(&pods[0].spec)?;
            assert_eq!(spec["initContainers"][0]["name"], "wait-ranktable");
            assert_eq!(spec["containers"][0]["volumeMounts"].as_array().map_or(0, |mounts| {
                mounts.iter().filter(|mount| mount["name"] == "ranktable").count()
            }), 1, "{spec}");
            let volumes = spec["volumes"].as_array().context("no volumes")?;
            let volume = volumes.iter().find(|volume| volume["name"] == "ranktable");
            assert_eq!(volume.context("no volume")?["configMap"]["name"], name);
            for (number, server, first) in [(0, "192.168.1.10", 2), (1, "192.168.1.11", 10)] {
                let pod = format!("qwen-inference-worker-{number}");
                let change = json!({"metadata": {"annotations": {
                    "ascend.com/ranktable": annotation(&pod, server, first)}}});
                let api = world.api::<Pod>();
                api.patch(&pod, &PatchParams::default(), &Patch::Merge(change)).await?;
            }
            world.pods_in(&selector("qwen-inference"), 2, "Running").await?;
            let map = maps.get(name).await?;
            assert_eq!(serde_json::from_str::<Value>(table(&map))?, expected());
            let (reason, message) = world
                .serving_is(Shape::Short, "qwen-inference", "RanktableReady", "True")
                .await?;
            assert_eq!(
                (reason.as_str(), message.as_str()),
                ("Published", "1 of 1 rank groups have their table")
            );
            world.serving_is(Shape::Short, "qwen-inference", "Available", "True").await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_card_one_node() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(seed("card", TEMPLATE, &[("worker", 1, 1)])).await?;
            assert_eq!(read(world, "card-worker", 1).await?, 1);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_with_many_cards() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(seed("cards", TEMPLATE, &[("worker", 1, 8)])).await?;
            assert_eq!(read(world, "cards-worker", 1).await?, 8);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let serving = with_tables(kthena("tp", 1, &[("server", 1, 1, 8)]), TEMPLATE);
            world.create_object(serving).await?;
            assert_eq!(read(world, "tp-0-server-0", 2).await?, 16);
            let map = delivered(world, "tp-0-server-0", 1).await?;
            let ranks = ranks(table(&map))?;
            let pods = world.pods(&selector("tp")).await?;
            let entry = pods.iter().find(|pod| pod.name_any() == "tp-0-server-0-0");
            let ip = entry.and_then(|pod| pod.status.as_ref()?.host_ip.clone());
            assert_eq!(Some(&ranks[&0].0), ip.as_ref(), "the entry pod has rank 0");
            let services = world.api::<Service>().list(&ListParams::default()).await?.items;
            assert!(services.iter().any(|service| service.name_any() == "tp-0-server-0-0"));
            world.serving_is(Shape::Kthena, "tp", "Available", "True").await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefill_and_decode_get_a_table_each() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let roles = [("prefill", 1, 1, 2), ("decode", 1, 1, 2)];
            let serving = with_tables(kthena("pd", 1, &roles), TEMPLATE);
            world.create_object(serving).await?;
            assert_eq!(read(world, "pd-0-prefill-0", 2).await?, 4);
            assert_eq!(read(world, "pd-0-decode-0", 2).await?, 4);
            let (_, message) =
                world.serving_is(Shape::Kthena, "pd", "RanktableReady", "True").await?;
            assert_eq!(message, "2 of 2 rank groups have their table");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_groups_get_a_table_each() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let roles = [("prefill", 1, 0, 1), ("decode", 2, 0, 1)];
            let mut serving = with_tables(kthena("many", 2, &roles), TEMPLATE);
            // The annotation wins over the template's level.
            serving["metadata"]["annotations"]["kthena.io/ranktable-level"] = json!("group");
            world.create_object(serving).await?;
            for group in ["many-0", "many-1"] {
                assert_eq!(read(world, group, 3).await?, 3);
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vllm_group_shares_one_table() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let roles = [("prefill", 1, 0, 2), ("decode", 1, 1, 2)];
            world.create_object(with_tables(kthena("vllm", 1, &roles), GROUP_TEMPLATE)).await?;
            assert_eq!(read(world, "vllm-0", 3).await?, 6);
            // In the short form the only group is number 0.
            world.create_object(seed("short", GROUP_TEMPLATE, &[("a", 1, 1), ("b", 1, 1)])).await?;
            assert_eq!(read(world, "short-0", 2).await?, 2);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_pod_and_a_scaled_role_make_new_generations() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            world.create_object(seed("grow", TEMPLATE, &[("worker", 2, 2)])).await?;
            let first = delivered(world, "grow-worker", 1).await?;
            let uids = |pods: &[Pod]| -> BTreeSet<String> {
                pods.iter().filter_map(ResourceExt::uid).collect()
            };
            let before = uids(&world.pods(&selector("grow")).await?);
            let params = DeleteParams::default().grace_period(0);
            world.api::<Pod>().delete("grow-worker-1", &params).await?;
            let second =
                delivered(world, "grow-worker", super::ranktable::generation(&first) + 1).await?;
            let after = world.pods(&selector("grow")).await?;
            assert_eq!(names(&after).len(), 2);
            assert_eq!(before.intersection(&uids(&after)).count(), 1, "only one was replaced");

            let replicas = [("/spec/roles/0/replicas", json!(3))];
            change(world, Shape::Short, "grow", &replicas).await?;
            let third =
                delivered(world, "grow-worker", super::ranktable::generation(&second) + 1).await?;
            assert_eq!(ranks(table(&third))?.len(), 6);
            assert_eq!(read(world, "grow-worker", 3).await?, 6);

            let replicas = [("/spec/roles/0/replicas", json!(1))];
            change(world, Shape::Short, "grow", &replicas).await?;
            let last =
                delivered(world, "grow-worker", super::ranktable::generation(&third) + 1).await?;
            assert_eq!(ranks(table(&last))?.len(), 2);
            assert_eq!(read(world, "grow-worker", 1).await?, 2);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named_and_the_others_go_on() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            world.create_object(seed("lost", "no-such-template", &[("worker", 1, 1)])).await?;
            let mut level = seed("level", TEMPLATE, &[("worker", 1, 1)]);
            level["metadata"]["annotations"]["kthena.io/ranktable-level"] = json!("rack");
            world.create_object(level).await?;
            world.create_object(seed("good", TEMPLATE, &[("worker", 1, 1)])).await?;
            assert_eq!(read(world, "good-worker", 1).await?, 1);

            let (reason, message) =
                world.serving_is(Shape::Short, "lost", "RanktableReady", "False").await?;
            assert_eq!(reason, "TemplateInvalid");
            assert!(message.contains("no-such-template"), "{message}");
            world.serving_is(Shape::Short, "lost", "Failed", "True").await?;
            let (reason, message) =
                world.serving_is(Shape::Short, "level", "RanktableReady", "False").await?;
            assert_eq!(reason, "InvalidLevel");
            assert!(message.contains("rack") && message.contains("role or group"), "{message}");
            let told = event(world, "RanktableGenerationFailed").await?;
            assert_eq!(told.involved_object.kind.as_deref(), Some("ModelServing"));
            assert!(world.pods(&selector("lost")).await?.is_empty(), "no pod waits for ever");

            // Somebody mends them.
            let path = "/metadata/annotations/kthena.io~1ranktable-template";
            change(world, Shape::Short, "lost", &[(path, json!(TEMPLATE))]).await?;
            assert_eq!(read(world, "lost-worker", 1).await?, 1);
            world.serving_is(Shape::Short, "lost", "Failed", "False").await?;

            // What no table can come of is refused at once, with the field.
            let long = seed(
                "a-name",
                TEMPLATE,
                &[("a-role-name-that-is-longer-than-all-that-a-pod-can-be-called-after", 1, 1)],
            );
            let refused = world.create_object(long).await.unwrap_err();
            assert!(format!("{refused:#}").contains("spec.roles[0].name"), "{refused:#}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_sizes_and_annotations_that_are_wrong_are_named_and_other_roles_go_on()
-> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let templates: Api<ConfigMap> = Api::namespaced(world.client(), "kthena-system");
            let table = r#"{"status":"completed","server_count":"{{.ServerCount}}"}"#;
            let [broken, no_yaml, parser] =
                ["broken", "no-yaml", "parser"].map(|name| format!("{name}-{}", world.namespace()));
            for (name, data) in [
                (&broken, json!({"ranktable-template": "{{ if }}"})),
                (&parser, json!({"parser-template": "a: [b"})),
                (&no_yaml, json!({"ranktable-template": table, "pod-parser-template": parser})),
            ] {
                let source: ConfigMap = serde_json::from_value(json!({
                    "metadata": {"name": name, "namespace": "kthena-system"}, "data": data}))?;
                templates.create(&Default::default(), &source).await?;
            }
            world.create_object(seed("broken", &broken, &[("worker", 1, 1)])).await?;
            world.create_object(seed("no-yaml", &no_yaml, &[("worker", 1, 1)])).await?;
            // What a tenant writes where an agent writes is no table's business: nonsense, and somebody else's address.
            let mut forged = seed("forged", TEMPLATE, &[("nonsense", 1, 1), ("elsewhere", 1, 1)]);
            let elsewhere = json!({"pod_name": "x", "server_id": "6.6.6.6",
                "devices": [{"device_id": "0", "device_ip": "6.6.6.6"}]});
            for (role, text) in [(0, "no JSON {".to_owned()), (1, elsewhere.to_string())] {
                forged["spec"]["roles"][role]["template"]["metadata"] =
                    json!({"annotations": {"ascend.com/ranktable": text}});
            }
            world.create_object(forged).await?;
            let large = seed("large", TEMPLATE, &[("all", 200_000, 1), ("few", 1, 1)]);
            world.create_object(large).await?;

            let world = &*world;
            let why = |name| world.serving_is(Shape::Short, name, "Failed", "True");
            let (reason, message) = why("broken").await?;
            assert_eq!(reason, "TemplateInvalid");
            ensure!(
                message.contains(&broken) && message.contains("ranktable-template"),
                "{message}"
            );
            let (reason, message) = why("no-yaml").await?;
            assert_eq!(reason, "GenerationFailed");
            ensure!(message.contains("YAML") && message.contains("no-yaml-worker"), "{message}");
            let (reason, message) = why("large").await?;
            assert_eq!(reason, "GroupTooLarge");
            ensure!(message.contains("200000") && message.contains("\"all\""), "{message}");
            assert_eq!(read(world, "large-few", 1).await?, 1);
            assert_eq!(world.pods(&selector("large")).await?.len(), 1, "none of the large role");
            for group in ["forged-nonsense", "forged-elsewhere"] {
                assert_eq!(read(world, group, 1).await?, 1);
                let map = delivered(world, group, 1).await?;
                ensure!(!super::ranktable::table(&map).contains("6.6.6.6"), "{group}");
            }
            for name in [&broken, &no_yaml, &parser] {
                templates.delete(name, &DeleteParams::default()).await?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_modelserving_has_nothing_of_rank_tables() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(kthena("plain", 2, &[("web", 1, 1, 0)])).await?;
            world.pods_in(&selector("plain"), 4, "Running").await?;
            world.serving_is(Shape::Kthena, "plain", "Available", "True").await?;
            for pod in world.pods(&selector("plain")).await? {
                let text = serde_json::to_string(&pod)?;
                assert!(!text.contains("ranktable") && !text.contains("rank-group"), "{text}");
            }
            assert!(
                world
                    .api::<ConfigMap>()
                    .list(&ListParams::default())
                    .await?
                    .items
                    .iter()
                    .all(|map| !map.name_any().ends_with("-ranktable"))
            );
            let object = serde_json::to_value(world.servings(Shape::Kthena).get("plain").await?)?;
            assert_eq!(condition_of(&object, "RanktableReady"), None);
            assert_eq!(object["status"]["availableReplicas"], 2);

            // A newer template replaces the pods, and scaling down removes the last group.
            let containers = "/spec/template/roles/0/entryTemplate/spec/containers/0/env";
            let newer =
                [(containers, json!([{"name": "A", "value": "B"}])), ("/spec/replicas", json!(1))];
            change(world, Shape::Kthena, "plain", &newer).await?;
            world
                .until("the pods of the new template", async || {
                    let pods = world.pods(&selector("plain")).await?;
                    let new = pods.iter().filter(|pod| {
                        serde_json::to_string(pod).unwrap_or_default().contains("\"A\"")
                    });
                    let new = new.count();
                    let object =
                        serde_json::to_value(world.servings(Shape::Kthena).get("plain").await?)?;
                    let available = object["status"]["availableReplicas"] == 1;
                    let seen = format!("{new} new of {:?}, {}", names(&pods), object["status"]);
                    Ok(if new == 1 && pods.len() == 2 && available {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(seen)
                    })
                })
                .await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_come_after_a_role_was_scaled_and_go_with_the_object() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(kthena("wide", 1, &[("web", 1, 0, 0)])).await?;
            world.pods_in(&selector("wide"), 1, "Running").await?;
            let roles = [("/spec/template/roles/0/replicas", json!(2))];
            change(world, Shape::Kthena, "wide", &roles).await?;
            world.pods_in(&selector("wide"), 2, "Running").await?;
            change(world, Shape::Kthena, "wide", &[("/spec/replicas", json!(2))]).await?;
            world.pods_in(&selector("wide"), 4, "Running").await?;
            world.serving_is(Shape::Kthena, "wide", "Available", "True").await?;
            world.servings(Shape::Kthena).delete("wide", &DeleteParams::foreground()).await?;
            world
                .until("nothing of it", async || {
                    let pods = world.pods(&selector("wide")).await?.len();
                    let gone = world.servings(Shape::Kthena).get_opt("wide").await?.is_none();
                    let seen = format!("{pods} pods, the object is gone: {gone}");
                    Ok(if pods == 0 && gone { Seen::Yes(()) } else { Seen::NotYet(seen) })
                })
                .await
        })
        .await
}

/// Waits until it was said so often that a role runs, this one among them, and never more often.
async fn roles_run(world: &World, role: &str, count: usize) -> Result<()> {
    world
        .until(&format!("{count} events, one of {role}"), async || {
            let events = world.api::<Event>().list(&ListParams::default()).await?.items;
            let ours = |event: &&Event| event.reason.as_deref() == Some("RoleRunning");
            let said = events.iter().filter(ours).map(|event| {
                let message = event.message.clone().unwrap_or_default();
                (message, event.count.unwrap_or(1).max(1))
            });
            let said: Vec<(String, i32)> = said.collect();
            let all = usize::try_from(said.iter().map(|(_, times)| *times).sum::<i32>())?;
            ensure!(all <= count, "{said:?}");
            let there = all == count && said.iter().any(|(message, _)| message.contains(role));
            Ok(if there { Seen::Yes(()) } else { Seen::NotYet(format!("{said:?}")) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_starts_does_not_say_again_that_roles_run() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(kthena("calm", 1, &[("a", 3, 0, 0)])).await?;
            world.pods_in(&selector("calm"), 3, "Running").await?;
            roles_run(world, "a/a-2 ", 3).await?;
            let number = world.coordinators()?.iter().map(|one| one.number).next();
            world.coordinators_mut()?.end(number.context("none runs")?).await?;
            world.add_coordinator().await?;
            let more = [("/spec/template/roles/0/replicas", json!(4))];
            change(world, Shape::Kthena, "calm", &more).await?;
            roles_run(world, "a/a-3 ", 4).await
        })
        .await
}
