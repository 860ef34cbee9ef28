//! LeaderWorkerSets as ModelServings: from the object to its pods, and back to its status.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::servings::recorder::Recorder;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::serving::{condition_of, selector};
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::modelserving::kthena;
use super::ranktable::event;

/// The kind, as far as Muster relies on it. Administrators install the definition of LeaderWorkerSet.
pub fn definition() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let template = json!({"type": "object", "required": ["workerTemplate"], "properties": {
        "size": {"type": "integer", "format": "int32", "default": 1},
        "restartPolicy": {"type": "string", "default": "RecreateGroupOnPodRestart"},
        "leaderTemplate": any, "workerTemplate": any}});
    let spec = json!({"type": "object", "required": ["leaderWorkerTemplate"], "properties": {
        "replicas": {"type": "integer", "format": "int32", "default": 1},
        "startupPolicy": {"type": "string", "default": "LeaderCreated"},
        "leaderWorkerTemplate": template}});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.hpaPodSelector"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": any}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "leaderworkersets.leaderworkerset.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": "leaderworkerset.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "LeaderWorkerSet", "plural": "leaderworkersets", "singular": "leaderworkerset",
                "shortNames": ["lws"]},
            "versions": [version]}})
}

fn choices() -> Choices {
    Choices { leader_worker_sets: true, ..Choices::default() }
}

/// So many groups of so many pods.
fn set(name: &str, replicas: u32, size: u32) -> Value {
    let pod = json!({"metadata": {"labels": {"app": name}, "annotations": {"note": "first"}},
        "spec": {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "engine", "image": HOLD}]}});
    json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": name}, "spec": {"replicas": replicas, "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"size": size, "workerTemplate": pod}}})
}

fn sets(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet");
    let resource = ApiResource::from_gvk_with_plural(&kind, "leaderworkersets");
    Api::namespaced_with(world.client(), world.namespace(), &resource)
}

async fn change(world: &World, name: &str, change: Value) -> Result<()> {
    sets(world).patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Waits until all groups of a set are ready; its status.
async fn ready(world: &World, name: &str, groups: u32) -> Result<Value> {
    world
        .until(&format!("{groups} ready groups of LeaderWorkerSet {name}"), async || {
            let object = serde_json::to_value(sets(world).get(name).await?)?;
            let status = &object["status"];
            let counts = ["replicas", "readyReplicas", "updatedReplicas"];
            let all = counts.iter().all(|count| status[count] == groups);
            let available = condition_of(&object, "Available").is_some_and(|it| it.0 == "True");
            Ok(if all && available {
                Seen::Yes(status.clone())
            } else {
                Seen::NotYet(status.to_string())
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_becomes_groups_of_pods_and_its_status_follows() -> Result<()> {
    World::new()
        .nodes(2)
        .coordinators(1)
        .choices(choices())
        .run(async |world| {
            world.create_if_missing(definition()).await?;
            world.create_object(set("llama", 2, 2)).await?;
            let pods = world.pods_in(&selector("llama"), 4, "Running").await?;
            let numbers: BTreeSet<(String, String)> = pods
                .iter()
                .map(|pod| {
                    let label = |key: &str| {
                        pod.labels().get(&format!("leaderworkerset.sigs.k8s.io/{key}")).cloned()
                    };
                    assert_eq!(label("name").as_deref(), Some("llama"));
                    (
                        label("group-index").unwrap_or_default(),
                        label("worker-index").unwrap_or_default(),
                    )
                })
                .collect();
            let expected = [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")];
            assert_eq!(numbers, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
            let status = ready(world, "llama", 2).await?;
            // The selector is that of the leaders.
            let leaders = status["hpaPodSelector"].as_str().unwrap_or_default();
            assert_eq!(world.pods(leaders).await?.len(), 2);
            let made = event(world, "ModelServingCreated").await?;
            assert_eq!(made.involved_object.kind.as_deref(), Some("LeaderWorkerSet"));
            let told = event(world, "FieldsIgnored").await?.message.unwrap_or_default();
            ensure!(told.contains("spec.startupPolicy=LeaderReady: "), "{told}");

            // A pod that is lost comes back, and with it its group.
            let lost = pods[0].uid();
            let how = DeleteParams::default();
            world
                .api::<k8s_openapi::api::core::v1::Pod>()
                .delete(&pods[0].name_any(), &how)
                .await?;
            world
                .until("the next pod", async || {
                    let pods = world.pods_in(&selector("llama"), 4, "Running").await?;
                    let back = pods.iter().all(|pod| pod.uid() != lost);
                    Ok(if back { Seen::Yes(()) } else { Seen::NotYet("it is there".to_owned()) })
                })
                .await?;
            ready(world, "llama", 2).await?;

            // What is changed in the set changes in the serving, also what is taken away.
            let note = json!({"metadata": {"annotations": {"note": null}}});
            let spec = json!({"replicas": 1, "leaderWorkerTemplate": {"workerTemplate": note}});
            change(world, "llama", json!({ "spec": spec })).await?;
            world
                .until("a serving without the annotation", async || {
                    let found = world.servings(Shape::Kthena).get("llama").await?;
                    let spec = &found.data["spec"];
                    let role = &spec["template"]["roles"][0];
                    let gone = ["entryTemplate", "workerTemplate"].iter().all(|template| {
                        role[template]["metadata"]["annotations"]["note"].is_null()
                    });
                    Ok(if gone && spec["replicas"] == 1 {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(spec.to_string())
                    })
                })
                .await?;
            world.pods_in(&selector("llama"), 2, "Running").await?;
            ready(world, "llama", 1).await?;

            // With the set all goes.
            sets(world).delete("llama", &DeleteParams::default()).await?;
            world
                .until("the end of serving and pods", async || {
                    let pods = world.pods(&selector("llama")).await?.len();
                    let serving = world.servings(Shape::Kthena).get_opt("llama").await?;
                    let left = format!("{pods} pods, serving: {}", serving.is_some());
                    Ok(if pods == 0 && serving.is_none() {
                        Seen::Yes(())
                    } else {
                        Seen::NotYet(left)
                    })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_takes_over_writes_nothing_of_a_set_that_is_as_it_should_be()
-> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .choices(choices())
        .run(async |world| {
            world.create_if_missing(definition()).await?;
            world.create_object(set("settled", 1, 2)).await?;
            ready(world, "settled", 1).await?;
            let newer = Recorder::default();
            world.coordinators_mut()?.end(0).await?;
            world.add_coordinator_with(|client| newer.client(client)).await?;
            // When a new set is ready, the old one has been reconciled, too.
            world.create_object(set("next", 1, 1)).await?;
            ready(world, "next", 1).await?;
            let writes = newer.since(0);
            let ours = |name: &str| {
                let about = writes.iter().filter(|write| write.target.contains(name));
                about
                    .map(|write| format!("{} {}", write.verb(), write.resource()))
                    .collect::<BTreeSet<_>>()
            };
            assert!(ours("/next").contains("apply modelservings"), "{:?}", ours("/next"));
            assert_eq!(ours("/settled"), BTreeSet::new());
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serving_that_somebody_else_has_made_is_left_as_it_is() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .choices(choices())
        .run(async |world| {
            world.create_if_missing(definition()).await?;
            world.create_object(kthena("taken", 1, &[("own", 1, 0, 0)])).await?;
            world.pods_in(&selector("taken"), 1, "Running").await?;
            world.create_object(set("taken", 1, 2)).await?;
            let told = event(world, "NameTaken").await?;
            let note = told.message.unwrap_or_default();
            ensure!(
                note.contains("has no owner: delete it, or rename the LeaderWorkerSet"),
                "{note}"
            );
            let api = world.servings(Shape::Kthena);
            let found = api.get("taken").await?;
            assert_eq!(found.data["spec"]["template"]["roles"][0]["name"], "own");
            assert_eq!(found.owner_references(), []);
            // When its name is free, the set gets it.
            api.delete("taken", &DeleteParams::default()).await?;
            let pods =
                world.pods_in("leaderworkerset.sigs.k8s.io/name=taken", 2, "Running").await?;
            assert_eq!(pods.len(), 2);
            ready(world, "taken", 1).await.map(drop)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_flag_sets_are_left_to_their_operator() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.create_if_missing(definition()).await?;
            world.create_object(set("operators", 1, 1)).await?;
            // A ModelServing that came later has its pods by now.
            world.create_object(kthena("later", 1, &[("own", 1, 0, 0)])).await?;
            world.pods_in(&selector("later"), 1, "Running").await?;
            assert!(world.servings(Shape::Kthena).get_opt("operators").await?.is_none());
            let found = sets(world).get("operators").await?;
            assert!(found.data["status"].is_null(), "{}", found.data["status"]);
            Ok(())
        })
        .await
}
