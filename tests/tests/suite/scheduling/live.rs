//! Configuration that changes while the coordinator runs: `SchedulingShard` and `Config`.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use muster_sandbox::hardware::Profile;
use muster_scheduling::live::{KaiConfig, Shard, definition};
use muster_scheduling::status_view::Configuration;
use muster_tests::World;
use muster_tests::delivery::scrape::Figures;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::suite::trainjob::groups::groups;
use crate::suite::workload::GPU;

/// What the leader obeys.
pub fn in_force(world: &World) -> Result<Option<Configuration>> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    Ok(leader.coordinator().status().snapshot().scheduler)
}

/// Waits until the leader obeys what this is the source of.
async fn until_in_force(world: &World, source: &str) -> Result<()> {
    world
        .until(&format!("{source} is in force"), async || {
            let now = in_force(world)?;
            let done = now.as_ref().is_some_and(|now| now.source == source);
            Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{now:?}")) })
        })
        .await
}

/// Waits until the leader counts scheduling as paused, or as not.
async fn until_paused(world: &World, wanted: u8) -> Result<()> {
    world
        .until(&format!("muster_scheduler_paused {wanted}"), async || {
            let leader = world.coordinators()?.leader().context("nobody leads")?;
            let figures = Figures::of(&leader.coordinator().status().registry);
            let now = figures.get("muster_scheduler_paused");
            let done = now == f64::from(wanted);
            Ok(if done { Seen::Yes(()) } else { Seen::NotYet(now.to_string()) })
        })
        .await
}

/// Creates the shard `default`.
pub async fn create_shard(world: &World, spec: Value) -> Result<()> {
    let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
        "metadata": {"name": "default"}, "spec": spec});
    world.create_object(shard).await.map(drop)
}

pub async fn create_config(world: &World, spec: Value) -> Result<()> {
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config",
        "metadata": {"name": "kai-config"}, "spec": spec});
    world.create_object(config).await.map(drop)
}

/// Changes the spec of an object without a namespace.
pub async fn change<K>(world: &World, name: &str, spec: Value) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(world.client());
    let change = Patch::Merge(json!({ "spec": spec }));
    api.patch(name, &PatchParams::default(), &change).await?;
    Ok(())
}

/// A condition, when it is about the generation that the object has now and is as it should be.
pub async fn condition(
    generation: impl AsyncFn() -> Result<(Option<i64>, Map<String, Value>)>,
    world: &World,
    kind: &str,
    well: impl Fn(&Value) -> bool,
) -> Result<Value> {
    world
        .until(&format!("condition {kind}"), async || {
            let (now, rest) = generation().await?;
            let status = rest.get("status").cloned().unwrap_or_default();
            let all = status["conditions"].as_array();
            let one = all.into_iter().flatten().find(|one| one["type"] == kind).cloned();
            Ok(match one.filter(|one| one["observedGeneration"] == json!(now) && well(one)) {
                Some(one) => Seen::Yes(one),
                None => Seen::NotYet(format!("generation {now:?}: {status}")),
            })
        })
        .await
}

/// A condition of the shard `default`.
pub async fn of_shard(world: &World, kind: &str, well: impl Fn(&Value) -> bool) -> Result<Value> {
    let api: Api<Shard> = Api::all(world.client());
    let read = async || {
        let shard = api.get("default").await?;
        Ok((shard.metadata.generation, shard.rest))
    };
    condition(read, world, kind, well).await
}

/// A condition of `kai-config`.
pub async fn of_config(world: &World, kind: &str, well: impl Fn(&Value) -> bool) -> Result<Value> {
    let api: Api<KaiConfig> = Api::all(world.client());
    let read = async || {
        let config = api.get("kai-config").await?;
        Ok((config.metadata.generation, config.rest))
    };
    condition(read, world, kind, well).await
}

fn is_true(one: &Value) -> bool {
    one["status"] == "True"
}

/// A pod of one device, in a group of its own.
async fn pod(world: &World, name: &str) -> Result<()> {
    world.pod_group(name, "team", 1, json!({})).await?;
    world.create_object(waiting_pod(name, 0, name, GPU, 1)).await.map(drop)
}

async fn place(world: &World, name: &str) -> Result<String> {
    let placed = world.placed(name, 1).await?;
    placed.first().and_then(node).map(str::to_owned).context("no node")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_obeyed_from_the_next_cycle_on_and_the_config_pauses_scheduling() -> Result<()> {
    if World::is_real() {
        // Others use that cluster's one configuration.
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::NvidiaH1008, 2)
        .coordinators(2)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            until_in_force(world, "defaults").await?;
            create_shard(world, json!({"placementStrategy": {"gpu": "binpack"}})).await?;
            for kind in ["Reconciling", "Deployed", "Available", "DependenciesFulfilled"] {
                of_shard(world, kind, is_true).await?;
            }
            until_in_force(world, "SchedulingShard default, generation 1").await?;
            pod(world, "first").await?;
            let filled = place(world, "first").await?;
            pod(world, "second").await?;
            ensure!(place(world, "second").await? == filled, "binpack fills one node");

            let spread = json!({"placementStrategy": {"gpu": "spread", "cpu": "spread"}});
            change::<Shard>(world, "default", spread).await?;
            of_shard(world, "Deployed", is_true).await?;
            pod(world, "third").await?;
            let other = place(world, "third").await?;
            ensure!(other != filled, "spread takes the emptier node");

            // While scheduling is paused a pod waits. Which node it gets shows when it was decided on.
            create_config(world, json!({"scheduler": {"service": {"enabled": false}}})).await?;
            let paused = of_config(world, "Available", is_true).await?;
            let message = paused["message"].as_str().unwrap_or_default();
            ensure!(message.contains("spec.scheduler.service.enabled"), "{paused}");
            world
                .until("the status says so", async || {
                    let now = in_force(world)?.and_then(|now| now.paused);
                    Ok(match now == Some("spec.scheduler.service.enabled") {
                        true => Seen::Yes(()),
                        false => Seen::NotYet(format!("{now:?}")),
                    })
                })
                .await?;
            until_paused(world, 1).await?;
            pod(world, "fourth").await?;
            let binpack = json!({"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}});
            change::<Shard>(world, "default", binpack).await?;
            of_shard(world, "Deployed", is_true).await?;
            ensure!(world.pods_of("fourth").await?.iter().all(|pod| node(pod).is_none()));
            let on = json!({"scheduler": {"service": {"enabled": true}}});
            change::<KaiConfig>(world, "kai-config", on).await?;
            ensure!(place(world, "fourth").await? == filled, "it was placed while paused");
            until_paused(world, 0).await?;

            // What cannot be used changes nothing, and says why.
            let odd = json!({"placementStrategy": {"gpu": "heap"}});
            change::<Shard>(world, "default", odd).await?;
            let deployed = of_shard(world, "Deployed", |one| one["status"] == "False").await?;
            let message = deployed["message"].as_str().unwrap_or_default();
            for word in ["SchedulingShard default", "spec.placementStrategy.gpu", "generation 3"] {
                ensure!(message.contains(word), "{deployed}");
            }
            ensure!(deployed["reason"] == "invalid_spec", "{deployed}");
            pod(world, "fifth").await?;
            ensure!(place(world, "fifth").await? == filled, "the last good one stays in force");

            let shards: Api<Shard> = Api::all(world.client());
            shards.delete("default", &DeleteParams::default()).await?;
            until_in_force(world, "defaults").await
        })
        .await
}

/// A pod of one device without a group, in a queue that a label names.
async fn labelled(world: &World, name: &str, key: &str) -> Result<()> {
    let mut pod = waiting_pod(name, 0, "", GPU, 1);
    pod["metadata"]["labels"][key] = "team".into();
    world.create_object(pod).await.map(drop)
}

/// The queue of the group that a pod was put into.
async fn queue_of(world: &World, set: &str) -> Result<String> {
    let pods = world.pods_of(set).await?;
    let annotations = pods.first().and_then(|pod| pod.metadata.annotations.as_ref());
    let group = annotations.and_then(|all| all.get("pod-group-name")).context("no group")?;
    let found = groups(world, "scheduling.run.ai", "v2alpha2").get(group).await?;
    Ok(found.data["spec"]["queue"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_names_the_label_of_queues_and_hears_of_a_scheduler_name_that_is_not_served()
-> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            let global = json!({"queueLabelKey": "example.com/queue", "schedulerName": "other"});
            create_config(world, json!({ "global": global })).await?;
            let deployed = of_config(world, "Deployed", |one| one["status"] == "False").await?;
            let message = deployed["message"].as_str().unwrap_or_default();
            ensure!(deployed["reason"] == "invalid_spec", "{deployed}");
            for word in ["spec.global.schedulerName", "--scheduler-name other"] {
                ensure!(message.contains(word), "{deployed}");
            }
            let ignored = async |wanted: bool| {
                let until = async || {
                    let now = in_force(world)?.map(|now| now.ignored);
                    let done = now.as_ref().is_some_and(|now| now.is_some() == wanted);
                    Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{now:?}")) })
                };
                world.until("the leader obeys it", until).await
            };
            ignored(true).await?;
            labelled(world, "first", "example.com/queue").await?;
            place(world, "first").await?;
            assert_eq!(queue_of(world, "first").await?, "team");
            let none = json!({"global": {"queueLabelKey": null, "schedulerName": null}});
            change::<KaiConfig>(world, "kai-config", none).await?;
            of_config(world, "Deployed", is_true).await?;
            ignored(false).await?;
            labelled(world, "second", "kai.scheduler/queue").await?;
            place(world, "second").await?;
            assert_eq!(queue_of(world, "second").await?, "team");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_come_and_go_are_noticed_and_a_shard_that_is_not_ours_is_told_so() -> Result<()>
{
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            create_shard(world, json!({"kValue": 0.5})).await?;
            until_in_force(world, "SchedulingShard default, generation 1").await?;
            let other = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
                "metadata": {"name": "pool-a"}, "spec": {"partitionLabelValue": "a"}});
            world.create_object(other.clone()).await?;
            world
                .until("the other shard is told", async || {
                    let found = world.object(&other).await?;
                    let one = &found["status"]["conditions"][0];
                    Ok(if one["reason"] == "not_served" && one["status"] == "False" {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(found["status"].to_string())
                    })
                })
                .await?;
            let definitions: Api<CustomResourceDefinition> = Api::all(world.client());
            let mut saved = definitions.get(definition::SHARD).await?;
            definitions.delete(definition::SHARD, &DeleteParams::default()).await?;
            until_in_force(world, "defaults").await?;
            pod(world, "first").await?;
            place(world, "first").await?;
            let named = kube::core::ObjectMeta {
                name: saved.metadata.name.clone(),
                ..kube::core::ObjectMeta::default()
            };
            (saved.metadata, saved.status) = (named, None);
            world.create_object(serde_json::to_value(&saved)?).await?;
            create_shard(world, json!({"kValue": 0.25})).await?;
            until_in_force(world, "SchedulingShard default, generation 1").await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_that_an_operator_keeps_writing_are_left_to_it_while_the_shard_is_obeyed()
-> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .coordinators(1)
        .run(async |world| {
            create_shard(world, json!({"kValue": 0.5})).await?;
            let api: Api<Shard> = Api::all(world.client());
            let theirs = |one: &Value| one["message"] == "System available";
            let status = json!({"status": {"conditions": [{"type": "Available", "status": "True",
                "reason": "available", "message": "System available",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
            for _ in 0..3 {
                of_shard(world, "Available", |one| !theirs(one)).await?;
                let params = PatchParams::default();
                api.patch_status("default", &params, &Patch::Merge(&status)).await?;
            }
            // The leader has looked since: another shard has its condition.
            let other = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
                "metadata": {"name": "pool-a"}, "spec": {"partitionLabelValue": "a"}});
            world.create_object(other.clone()).await?;
            world
                .until("the other shard is told", async || {
                    let found = world.object(&other).await?;
                    let told = found["status"]["conditions"][0]["reason"] == "not_served";
                    Ok(if told { Seen::Yes(()) } else { Seen::NotYet(found["status"].to_string()) })
                })
                .await?;
            of_shard(world, "Available", theirs).await?;
            // What is new is said all the same.
            change::<Shard>(world, "default", json!({"kValue": 0.25})).await?;
            of_shard(world, "Available", |one| !theirs(one)).await?;
            until_in_force(world, "SchedulingShard default, generation 2").await
        })
        .await
}
