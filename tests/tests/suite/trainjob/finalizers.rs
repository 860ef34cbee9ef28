//! Runtimes that are used carry a finalizer, others do not; which jobs count is a rule.

use anyhow::{Result, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use muster_pipeline::in_use::HoldRule;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::behaviour::exchange::Ask;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::jobset::selector;
use serde_json::json;

use super::{complete, held, job, torch};

const IN_USE: &str = "trainer.kubeflow.org/resource-in-use";

async fn has(world: &World, api: &Api<DynamicObject>, name: &str, wanted: &[&str]) -> Result<()> {
    world
        .until(&format!("finalizers {wanted:?} of {name}"), async || {
            let finalizers = api.get(name).await?.metadata.finalizers.unwrap_or_default();
            Ok(match finalizers == wanted {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("{finalizers:?}")),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_has_its_finalizer_as_long_as_jobs_use_it_also_when_nobody_was_there_to_see_them_go()
-> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let mut shared = torch("shared", held());
            shared["metadata"]["finalizers"] = json!(["example.com/mine"]);
            world.create_object(shared).await?;
            let mut own = torch("own", held());
            own["kind"] = json!("TrainingRuntime");
            world.create_object(own).await?;
            let (cluster, local) = (world.cluster_runtimes(), world.runtimes());
            let shared = &world.own("shared");
            world.train(job("one", "shared", 1)).await?;
            world.train(job("two", "shared", 1)).await?;
            let mut three = job("three", "own", 1);
            three["spec"]["runtimeRef"]["kind"] = json!("TrainingRuntime");
            world.train(three).await?;
            has(world, &cluster, shared, &["example.com/mine", IN_USE]).await?;
            has(world, &local, "own", &[IN_USE]).await?;
            let jobs = world.trainjobs();
            jobs.delete("one", &DeleteParams::default()).await?;
            jobs.delete("three", &DeleteParams::default()).await?;
            has(world, &local, "own", &[]).await?;
            has(world, &cluster, shared, &["example.com/mine", IN_USE]).await?;
            // The last one goes while no coordinator runs.
            let number = world.coordinators()?.iter().map(|one| one.number).next().unwrap_or(0);
            world.coordinators_mut()?.end(number).await?;
            jobs.delete("two", &DeleteParams::default()).await?;
            has(world, &cluster, shared, &["example.com/mine", IN_USE]).await?;
            world.add_coordinator().await?;
            has(world, &cluster, shared, &["example.com/mine"]).await
        })
        .await
}

fn under(runtime_holds: HoldRule) -> Choices {
    Choices { runtime_holds, ..Choices::default() }
}

/// Waits until a runtime is gone.
async fn gone(world: &World, api: &Api<DynamicObject>, name: &str) -> Result<()> {
    world
        .until(&format!("{name} is gone"), async || {
            Ok(match api.get_opt(name).await? {
                None => Seen::Yes(()),
                Some(there) => Seen::NotYet(format!("{:?}", there.metadata.finalizers)),
            })
        })
        .await
}

/// What the API server warns of when a label of a runtime gets this value.
async fn warned(world: &World, name: &str, team: &str) -> Result<Vec<String>> {
    let ask = Ask {
        method: "PATCH".to_owned(),
        path: format!("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/{name}"),
        headers: vec![("content-type".to_owned(), "application/merge-patch+json".to_owned())],
        body: json!({"metadata": {"labels": {"team": team}}}).to_string().into_bytes(),
    };
    let answer = ask.send(&world.client()).await?;
    ensure!(answer.code == 200, "{answer:?}");
    Ok(answer.warnings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_is_deleted_says_which_jobs_keep_it_also_those_that_have_ended() -> Result<()>
{
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("shared", held())).await?;
            let (api, name) = (world.cluster_runtimes(), &world.own("shared"));
            world.train(job("ended", "shared", 1)).await?;
            world.gate().open();
            complete(world, "ended").await?;
            has(world, &api, name, &[IN_USE]).await?;
            ensure!(warned(world, name, "a").await?.is_empty(), "it is not being deleted");
            api.delete(name, &DeleteParams::default()).await?;
            let condition = world
                .until("who keeps the runtime", async || {
                    let runtime = api.get(name).await?;
                    let condition = &runtime.data["status"]["conditions"][0];
                    Ok(match condition["type"] == "Deleting" {
                        true => Seen::Yes(condition.clone()),
                        false => Seen::NotYet(runtime.data["status"].to_string()),
                    })
                })
                .await?;
            let holder = format!("1 TrainJob ({}/ended)", world.namespace());
            let message = format!(
                "it is being deleted and goes with the last of {holder}; apply it again after that"
            );
            ensure!(
                condition["reason"] == "HeldByTrainJobs" && condition["message"] == message,
                "{condition}"
            );
            let warnings = warned(world, name, "b").await?;
            ensure!(
                warnings == [format!("ClusterTrainingRuntime {name}: {message}")],
                "{warnings:?}"
            );
            world.trainjobs().delete("ended", &DeleteParams::default()).await?;
            gone(world, &api, name).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_only_unfinished_jobs_count_a_runtime_goes_although_an_ended_job_names_it()
-> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .choices(under(HoldRule::Unfinished))
        .run(async |world| {
            world.create_object(torch("shared", held())).await?;
            let (api, name) = (world.cluster_runtimes(), &world.own("shared"));
            world.train(job("ended", "shared", 1)).await?;
            has(world, &api, name, &[IN_USE]).await?;
            world.gate().open();
            complete(world, "ended").await?;
            has(world, &api, name, &[]).await?;
            api.delete(name, &DeleteParams::default()).await?;
            gone(world, &api, name).await?;
            complete(world, "ended").await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_rule_is_off_finalizers_of_before_go_and_a_runtime_goes_under_its_jobs()
-> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .choices(under(HoldRule::Off))
        .run(async |world| {
            let mut shared = torch("shared", held());
            shared["metadata"]["finalizers"] = json!([IN_USE, "example.com/mine"]);
            world.create_object(shared).await?;
            let (api, name) = (world.cluster_runtimes(), &world.own("shared"));
            has(world, &api, name, &["example.com/mine"]).await?;
            world.train(job("running", "shared", 1)).await?;
            world.pods_in(&selector("running"), 1, "Running").await?;
            has(world, &api, name, &["example.com/mine"]).await?;
            api.delete(name, &DeleteParams::default()).await?;
            let warnings = warned(world, name, "b").await?;
            ensure!(
                warnings.len() == 1 && warnings[0].contains("1 finalizer (example.com/mine)"),
                "{warnings:?}"
            );
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(name, &PatchParams::default(), &free).await?;
            gone(world, &api, name).await?;
            world.gate().open();
            complete(world, "running").await
        })
        .await
}
