//! DIJobs: from the object to the end, and what their coordinators ask of the DI server.

mod crash;
mod crowd;
mod ding;
mod doubt;
mod gang;
mod refusals;
mod trust;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use muster_tests::World;
use muster_tests::world::dijob::selector;
use muster_tests::world::jobset::phase;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

/// A template whose container runs until the gate opens, or until it is deleted.
fn replica(image: &str) -> Value {
    json!({"template": {"spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "di-container", "image": image}]}}})
}

/// A job; its coordinator holds, the others run until they are deleted.
pub fn job(name: &str, policy: &str) -> Value {
    json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob", "metadata": {"name": name},
        "spec": {"cleanPodPolicy": policy, "coordinator": replica(HOLD),
            "collector": replica("ding"), "learner": replica("ding")}})
}

pub fn config() -> Value {
    json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "AggregatorConfig",
        "metadata": {"name": "aggregator-config"}, "spec": {"aggregator": replica("ding")}})
}

/// The template of aggregators.
pub async fn aggregators(world: &World) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "di-system"}});
    // Another test of a lasting cluster may have made both.
    let _there = world.create_object(namespace).await;
    let mut config = config();
    config["metadata"]["namespace"] = json!("di-system");
    let _there = world.create_object(config).await;
    Ok(())
}

/// Creates a job and waits until its coordinator runs.
pub async fn running(world: &World, name: &str, policy: &str) -> Result<()> {
    world.create_object(job(name, policy)).await?;
    world.dijob_is(name, "Running").await?;
    Ok(())
}

/// Names of the services that carry the name of a job.
async fn services(world: &World, job: &str) -> Result<BTreeSet<String>> {
    let params = ListParams::default().labels(&selector(job));
    let found = world.api::<Service>().list(&params).await?;
    Ok(found.items.iter().map(ResourceExt::name_any).collect())
}

/// Waits until the services of a job are these.
async fn services_are(world: &World, job: &str, expected: &BTreeSet<String>) -> Result<()> {
    world
        .until(&format!("services of {job}"), async || {
            let found = services(world, job).await?;
            Ok(if found == *expected { Seen::Yes(()) } else { Seen::NotYet(format!("{found:?}")) })
        })
        .await
}

/// Reasons and notes of events about a job.
async fn events(world: &World, job: &str) -> Result<BTreeSet<(String, String)>> {
    let all: Api<Event> = world.api();
    let about = |event: &Event| {
        event.regarding.as_ref().is_some_and(|one| {
            one.kind.as_deref() == Some("DIJob") && one.name.as_deref() == Some(job)
        })
    };
    let found = all.list(&ListParams::default()).await?.items.into_iter().filter(about);
    Ok(found.map(|e| (e.reason.unwrap_or_default(), e.note.unwrap_or_default())).collect())
}

fn names(pods: &[k8s_openapi::api::core::v1::Pod]) -> BTreeSet<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_asks_for_replicas_and_succeeds_and_each_policy_keeps_its_pods() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(2)
        .run(async |world| {
            let space = world.namespace().to_owned();
            let mut caller = world.di_caller().await?;
            let policies = ["Running", "ALL", "None"];
            for policy in policies {
                let name = format!("clean-{}", policy.to_lowercase());
                running(world, &name, policy).await?;
                let coordinator = format!("{name}-coordinator");
                let two = json!({"replicas": 2, "cpus": "100m", "memory": "50Mi"});
                let one = json!({"replicas": 1});
                let (status, made) = caller.create(&space, &coordinator, &two, &one).await?;
                ensure!(status == 200, "{made}");
                let (status, listed) = caller.query(&space, &coordinator).await?;
                ensure!(status == 200, "{listed}");
                let set = |list: &Value| {
                    list.as_array()
                        .into_iter()
                        .flatten()
                        .map(Value::to_string)
                        .collect::<BTreeSet<_>>()
                };
                for key in ["collectors", "learners"] {
                    assert_eq!(
                        set(&listed["data"][key]),
                        set(&made["data"][key]),
                        "read your writes"
                    );
                }
                let pods = world.pods_in(&selector(&name), 4, "Running").await?;
                services_are(world, &name, &names(&pods)).await?;
            }
            for policy in policies {
                let name = format!("clean-{}", policy.to_lowercase());
                let counted = world
                    .until(&format!("the counters of {name}"), async || {
                        let status = world.dijob_is(&name, "Running").await?;
                        let counts = &status["replicaStatus"];
                        let all =
                            counts["Collector"]["active"] == 2 && counts["Learner"]["active"] == 1;
                        Ok(if all { Seen::Yes(status) } else { Seen::NotYet(status.to_string()) })
                    })
                    .await?;
                assert_eq!(counted["replicaStatus"]["Coordinator"]["active"], 1);
            }
            world.gate().open();
            for policy in policies {
                let name = format!("clean-{}", policy.to_lowercase());
                let status = world.dijob_is(&name, "Succeeded").await?;
                let kinds: Vec<&str> = status["conditions"]
                    .as_array()
                    .context("no conditions")?
                    .iter()
                    .filter_map(|one| one["type"].as_str())
                    .collect();
                assert_eq!(kinds, ["Created", "Running", "Succeeded"]);
                services_are(world, &name, &BTreeSet::new()).await?;
                let left = match policy {
                    "ALL" => 0,
                    "Running" => 1,
                    _ => 4,
                };
                let pods = world
                    .until(&format!("{left} pods of {name}"), async || {
                        let pods = world.pods(&selector(&name)).await?;
                        Ok(match pods.len() == left {
                            true => Seen::Yes(pods),
                            false => Seen::NotYet(format!("{:?}", names(&pods))),
                        })
                    })
                    .await?;
                if policy == "Running" {
                    assert_eq!(names(&pods), [format!("{name}-coordinator")].into());
                    assert_eq!(phase(&pods[0]), "Succeeded");
                }
                let told = events(world, &name).await?;
                for (reason, note) in [
                    ("DIJobCreated", format!("DIJob {name} created")),
                    ("SuccessfulCreate", format!("Create pod: {name}-coordinator")),
                    (
                        "DIJobSucceeded",
                        format!("DIJob {name} succeeded because coordinator succeeded"),
                    ),
                ] {
                    ensure!(told.contains(&(reason.to_owned(), note)), "{reason} in {told:?}");
                }
            }
            let all = world.dijobs().get("clean-all").await?;
            assert_eq!(all.data["spec"]["cleanPodPolicy"], "All", "the webhook has written it");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_job_is_not_changed_by_another_coordinator() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            running(world, "done", "All").await?;
            world.gate().open();
            world.dijob_is("done", "Succeeded").await?;
            world
                .until("the end of its pods", async || {
                    let pods = world.pods(&selector("done")).await?;
                    Ok(if pods.is_empty() {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(format!("{:?}", names(&pods)))
                    })
                })
                .await?;
            let before = world.dijobs().get("done").await?;
            world.coordinators_mut()?.end(0).await?;
            world.add_coordinator().await?;
            // When a new job has run, the old one has been looked at too.
            world.create_object(job("next", "All")).await?;
            world.dijob_is("next", "Succeeded").await?;
            let after = world.dijobs().get("done").await?;
            assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
            assert!(world.pods(&selector("done")).await?.is_empty());
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_with_many_devices_is_an_aggregator_and_learners_that_share_a_table() -> Result<()>
{
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            aggregators(world).await?;
            let mut job = job("wide", "Running");
            job["metadata"]["annotations"] =
                json!({"muster.dev/ranktable-template": super::ranktable::TEMPLATE});
            let container = &mut job["spec"]["learner"]["template"]["spec"]["containers"][0];
            container["resources"] = json!({"limits": {super::workload::NPU: 1}});
            world.create_object(job).await?;
            world.dijob_is("wide", "Running").await?;
            let space = world.namespace().to_owned();
            let mut caller = world.di_caller().await?;
            let wanted = json!({"replicas": 1, "gpus": 12});
            let (status, made) = caller.create(&space, "wide-coordinator", &json!(null), &wanted).await?;
            ensure!(status == 200, "{made}");
            let url = made["data"]["learners"][0].as_str().context("no learner")?.to_owned();
            let aggregator = url.split('.').next().context("no name")?.to_owned();
            let ranks = super::modelserving::read(world, &aggregator, 2).await?;
            assert_eq!(ranks, 12, "eight devices of one node and four of the other");
            let target = format!("/v1alpha1/replicas?namespace={space}&aggregator={aggregator}");
            let (_, listed) = caller.ask("GET", &target, "{}").await?;
            assert_eq!(listed["data"]["learners"].as_array().map(Vec::len), Some(12));
            let body = json!({"namespace": space, "coordinator": "wide-coordinator", "learners": {"replicas": 1}});
            let (status, gone) = caller.ask("DELETE", "/v1alpha1/replicas", body.to_string()).await?;
            ensure!(status == 200 && gone["data"]["learners"] == json!([url]), "{gone}");
            world.pods_in(&selector("wide"), 1, "Running").await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_be_read_has_failed_and_does_not_stop_others() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: the definitions of a real cluster are not changed");
        return Ok(());
    }
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            // Somebody else's definition may take what the types do not.
            let definitions: Api<CustomResourceDefinition> = Api::all(world.client());
            let name = "dijobs.diengine.opendilab.org";
            let mut definition = serde_json::to_value(definitions.get(name).await?)?;
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let definition = serde_json::from_value(definition)?;
            definitions.replace(name, &kube::api::PostParams::default(), &definition).await?;
            let mut bad = job("bad", "Running");
            bad["spec"]["volumes"] = json!({"not": "a list"});
            world
                .until("the other definition", async || {
                    Ok(match world.create_object(bad.clone()).await {
                        Ok(_) => Seen::Yes(()),
                        Err(error) => Seen::NotYet(format!("{error:#}")),
                    })
                })
                .await?;
            running(world, "good", "Running").await?;
            let status = world.dijob_is("bad", "Failed").await?;
            let why = status["conditions"][0]["message"].as_str().unwrap_or_default();
            let begin = format!("failed to convert DIJob {}/bad: spec.volumes", world.namespace());
            ensure!(why.starts_with(&begin), "{why}");
            assert!(world.pods(&selector("bad")).await?.is_empty());
            Ok(())
        })
        .await
}
