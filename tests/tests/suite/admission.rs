//! Queues, PodGroups, Topologies and pods of the scheduler, as an API server takes them that asks a coordinator.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use muster_scheduling::admission::Rules;
use muster_scheduling::bootstrap::{PARENT, queues};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use serde_json::{Value, json};

fn queue(name: &str, parent: &str) -> Value {
    let mut spec = json!({"resources": {}});
    if !parent.is_empty() {
        spec["parentQueue"] = parent.into();
    }
    json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
}

fn group(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec})
}

fn pod(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "c", "image": "i"}]}})
}

/// Creates what must be refused with this text.
async fn refused(world: &World, object: Value, text: &str) -> Result<()> {
    match world.create_object(object).await {
        Ok(object) => bail!("it is taken: {object}"),
        Err(error) => {
            let error = format!("{error:#}");
            ensure!(error.contains(text), "{text} is not in {error}");
            Ok(())
        }
    }
}

/// A world in whose cluster the first queues are made.
async fn with_queues(world: &World) -> Result<Api<DynamicObject>> {
    let api = queues(&world.client());
    world
        .until("the default queue", async || {
            Ok(match api.get_opt("default-queue").await? {
                Some(_) => Seen::Yes(()),
                None => Seen::NotYet("none".to_owned()),
            })
        })
        .await?;
    Ok(api)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_cannot_work_are_refused() -> Result<()> {
    let plan = World::new().strict(true).coordinators(2);
    plan.run(async |world| {
        let api = with_queues(world).await?;
        let mut bare = queue("bare", "");
        bare["spec"] = json!({});
        refused(world, bare, "resources must be specified").await?;
        let missing = format!("there is no queue {}", world.own("nobody"));
        refused(world, queue("child", "nobody"), &missing).await?;
        // What was created a moment ago is known.
        for (name, parent) in [("a", ""), ("b", "a"), ("c", "b")] {
            world.create_object(queue(name, parent)).await?;
        }
        let change = json!({"spec": {"parentQueue": world.own("c")}});
        let circle =
            api.patch(&world.own("a"), &PatchParams::default(), &Patch::Merge(&change)).await;
        ensure!(format!("{circle:?}").contains("is above itself"), "{circle:?}");
        for name in [world.own("a"), PARENT.to_owned()] {
            let error = api.delete(&name, &DeleteParams::default()).await;
            ensure!(
                format!("{error:?}").contains("delete or move its children first"),
                "{error:?}"
            );
        }
        for name in ["c", "b", "a"] {
            api.delete(&world.own(name), &DeleteParams::default()).await.context(name)?;
        }
        let level = |label: &str| json!({"nodeLabel": label, "alias": "same"});
        let topology = json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
            "metadata": {"name": "t"}, "spec": {"levels": [level("zone"), level("rack")]}});
        refused(world, topology, "is the alias of two levels").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_cannot_be_placed_are_refused() -> Result<()> {
    let plan = World::new().strict(true).coordinators(1);
    plan.run(async |world| {
        with_queues(world).await?;
        let unknown = group("g", json!({"minMember": 1, "queue": "research"}));
        let missing = format!("there is no queue {}", world.own("research"));
        refused(world, unknown.clone(), &missing).await?;
        world.create_object(queue("research", PARENT)).await?;
        world.create_object(unknown).await?;
        let many = json!({"minMember": 100_001, "queue": "research"});
        refused(world, group("many", many), "pods are needed at once").await?;
        let both = json!({"minMember": 1, "minSubGroup": 1, "queue": "research"});
        refused(world, group("both", both), "leave one of minMember and minSubGroup").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_in_kai_a_group_may_name_a_queue_to_come() -> Result<()> {
    let choices = Choices { admission: Rules::of_kai(), ..Choices::default() };
    let plan = World::new().strict(true).coordinators(1).choices(choices);
    plan.run(async |world| {
        world.create_object(group("g", json!({"minMember": 1, "queue": "research"}))).await?;
        world.create_object(queue("child", "nobody")).await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_in_kai_a_part_need_not_count_its_pods_and_unknown_resources_have_no_effect()
-> Result<()> {
    let misspelt = || {
        let mut queue = queue("misspelt", "");
        queue["spec"]["resources"]["gpus"] = json!({"quota": 4, "limit": 4, "overQuotaWeight": 1});
        queue
    };
    let uncounted = || {
        let parts = json!([{"name": "a"}, {"name": "b", "minMember": 1}]);
        group("g", json!({"minMember": 1, "queue": "misspelt", "subGroups": parts}))
    };
    World::new()
        .strict(true)
        .coordinators(1)
        .run(async |world| {
            refused(world, misspelt(), "spec.resources[gpus]").await?;
            world.create_object(queue("misspelt", "")).await?;
            refused(world, uncounted(), "a does not say how many pods it needs").await
        })
        .await?;
    let choices = Choices { admission: Rules::of_kai(), ..Choices::default() };
    let plan = World::new().strict(true).coordinators(1).choices(choices);
    plan.run(async |world| {
        world.create_object(misspelt()).await?;
        world.create_object(uncounted()).await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_in_kai_a_queue_goes_before_its_children() -> Result<()> {
    let choices = Choices { admission: Rules::of_kai(), ..Choices::default() };
    let plan = World::new().strict(true).coordinators(1).choices(choices);
    plan.run(async |world| {
        let api = with_queues(world).await?;
        world.create_object(queue("above", "")).await?;
        world.create_object(queue("below", "above")).await?;
        let (above, below) = (world.own("above"), world.own("below"));
        // Also when its status says that it has children.
        world
            .until("the child is known", async || {
                let found = api.get(&above).await?.data["status"]["childQueues"].clone();
                let known = found == json!([below]);
                Ok(if known { Seen::Yes(()) } else { Seen::NotYet(found.to_string()) })
            })
            .await?;
        for name in [above, below] {
            api.delete(&name, &DeleteParams::default()).await.context(name)?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_share_a_device_are_dressed_and_others_never_asked_about() -> Result<()> {
    let plan = World::new().strict(true).coordinators(1);
    plan.run(async |world| {
        world.prepare_sharing().await?;
        let mut shares = pod("shares", json!({"gpu-fraction": "0.5"}));
        shares["spec"]["priorityClassName"] = "train".into();
        let made = world.create_object(shares).await?;
        ensure!(made["spec"]["priority"] == 50, "{made}");
        ensure!(made["spec"]["runtimeClassName"] == "nvidia", "{made}");
        let env = made["spec"]["containers"][0]["env"].as_array().context("no variables")?;
        ensure!(env.iter().any(|one| one["name"] == "NVIDIA_VISIBLE_DEVICES"), "{env:?}");
        let map = made["metadata"]["annotations"]["runai/shared-gpu-configmap"].as_str();
        ensure!(map.is_some_and(|map| map.starts_with("shares-")), "{map:?}");
        refused(world, pod("half", json!({"gpu-fraction": "2"})), "is no fraction").await?;
        let elsewhere = json!({"pod-group-name": "other/group"});
        refused(world, pod("elsewhere", elsewhere), "names a group of a namespace").await?;
        // Nobody answers any more: only pods that would have to be looked at are held up.
        world.coordinators_mut()?.end(0).await?;
        world.create_object(pod("plain", json!({"some": "thing"}))).await?;
        let mut other = pod("other", json!({"gpu-fraction": "2"}));
        other["spec"]["schedulerName"] = "default-scheduler".into();
        world.create_object(other).await?;
        let late = serde_json::from_value(pod("late", json!({"gpu-fraction": "0.5"})))?;
        let refused = world.api::<Pod>().create(&PostParams::default(), &late).await;
        ensure!(format!("{refused:?}").contains("failed calling webhook"), "{refused:?}");
        Ok(())
    })
    .await
}
