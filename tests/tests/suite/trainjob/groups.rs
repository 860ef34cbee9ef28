//! What belongs to a job besides its JobSet, and what is around it: whoever changes it, the job is looked at again.

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_tests::World;
use muster_tests::world::Seen;
use serde_json::{Value, json};

use super::resync::{passes, settled};
use super::{held, job, torch, workload};

/// PodGroups of an API.
pub fn groups(world: &World, group: &str, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, "PodGroup");
    let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    Api::namespaced_with(world.client(), world.namespace(), &resource)
}

/// A definition of PodGroups that takes anything.
pub fn definition(group: &str, version: &str) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("podgroups.{group}"),
            "annotations": {"api-approved.kubernetes.io": "https://example.com"}},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup",
                "listKind": "PodGroupList"},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": any}}]}})
}

/// A definition that only this test needs goes with it.
pub async fn forget(world: &World, group: &str) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions");
    let api: Api<DynamicObject> = Api::all_with(world.client(), &resource);
    api.delete(&format!("podgroups.{group}"), &DeleteParams::default()).await?;
    Ok(())
}

/// Somebody changes a field of a PodGroup's spec, and deletes it: it becomes what it was.
async fn comes_back(
    world: &World,
    api: &Api<DynamicObject>,
    name: &str,
    (field, wanted, other): (&str, Value, Value),
) -> Result<()> {
    let is = async |what: &str, gone: Option<String>| {
        world
            .until(&format!("PodGroup {name} {what}"), async || {
                let Some(found) = api.get_opt(name).await? else {
                    return Ok(Seen::NotYet("none".to_owned()));
                };
                let good = found.data["spec"][field] == wanted
                    && found.metadata.uid != gone
                    && found.metadata.deletion_timestamp.is_none();
                Ok(match good {
                    true => Seen::Yes(found.metadata.uid),
                    false => Seen::NotYet(found.data.to_string()),
                })
            })
            .await
    };
    let uid = is("at first", None).await?;
    let change = Patch::Merge(json!({"spec": {field: other}}));
    api.patch(name, &PatchParams::default(), &change).await?;
    is("after a change by hand", None).await?;
    api.delete(name, &DeleteParams::default()).await?;
    is("after it was deleted", uid).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_group_of_volcano_that_is_changed_or_deleted_comes_back() -> Result<()> {
    const GROUP: &str = "scheduling.volcano.sh";
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(definition(GROUP, "v1beta1")).await?;
            let mut gang = torch("volcanic", held());
            gang["spec"]["podGroupPolicy"] = json!({"volcano": {}});
            world.create_object(gang).await?;
            let mut hot = job("hot", "volcanic", 3);
            hot["spec"]["suspend"] = json!(true);
            world.train(hot).await?;
            workload(world, "hot").await?;
            comes_back(
                world,
                &groups(world, GROUP, "v1beta1"),
                "hot",
                ("minMember", json!(3), json!(77)),
            )
            .await?;
            forget(world, GROUP).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_group_of_a_queue_that_is_changed_or_deleted_comes_back() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            for queue in ["blue", "red"] {
                world.queue(queue, "", -1.0, -1.0).await?;
            }
            let (blue, red) = (world.own("blue"), world.own("red"));
            let mut pod = held();
            pod["spec"]["schedulerName"] = json!("muster-scheduler");
            world.create_object(torch("queued", pod)).await?;
            let mut patient = job("patient", "queued", 2);
            patient["metadata"]["labels"] = json!({"kai.scheduler/queue": blue});
            patient["spec"]["suspend"] = json!(true);
            world.train(patient).await?;
            let set = workload(world, "patient").await?;
            let pods = "/spec/replicatedJobs/0/template/spec/template/metadata/annotations";
            let name = set.pointer(pods).and_then(|all| all["pod-group-name"].as_str());
            let api = groups(world, "scheduling.run.ai", "v2alpha2");
            let name = name.context("its pods name no group")?;
            comes_back(world, &api, name, ("queue", json!(blue), json!(red))).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_range_or_a_runtime_class_that_changes_is_a_reason_to_look_at_suspended_jobs()
-> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let class = format!("{}-class", world.namespace());
            let mut pod = held();
            pod["spec"]["runtimeClassName"] = json!(class);
            world.create_object(torch("classy", pod)).await?;
            let mut suspended = job("waiting", "classy", 1);
            suspended["spec"]["suspend"] = json!(true);
            world.train(suspended).await?;
            workload(world, "waiting").await?;
            settled(world, "waiting").await?;
            let looked_at = async |why: &str, before: u64| {
                world
                    .until(&format!("a look after {why}"), async || {
                        let now = passes(world)?;
                        Ok(if now > before { Seen::Yes(()) } else { Seen::NotYet(format!("{now}")) })
                    })
                    .await
            };
            let before = passes(world)?;
            let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
                "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
            world.create_object(limits).await?;
            looked_at("a LimitRange", before).await?;
            let before = passes(world)?;
            let object = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                "metadata": {"name": class}, "handler": "runc"});
            world.create_object(object).await?;
            looked_at("a RuntimeClass", before).await?;
            let api: Api<k8s_openapi::api::node::v1::RuntimeClass> = Api::all(world.client());
            let before = passes(world)?;
            api.delete(&class, &DeleteParams::default()).await?;
            looked_at("its end", before).await
        })
        .await
}
