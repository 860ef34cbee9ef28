//! Pods that name no scheduler are ours where an administrator wants it so, and a queue that nobody reads is not overlooked.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::behaviour::exchange::Ask;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::jobset::selector;
use muster_tests::world::serving;
use serde_json::{Value, json};

use super::modelserving::{kthena, seed};
use super::trainjob::{held, job, torch};

const OURS: &str = "muster-scheduler";

/// All pods name this scheduler.
fn placed_by(pods: &[Pod], scheduler: &str) -> Result<()> {
    for pod in pods {
        let named = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
        ensure!(named == Some(scheduler), "{named:?}, not {scheduler}");
    }
    Ok(())
}

/// What the API server warns of when an object of the namespace is created.
async fn warned(world: &World, api: &str, plural: &str, object: &Value) -> Result<Vec<String>> {
    let namespace = world.namespace();
    let ask = Ask {
        method: "POST".to_owned(),
        path: format!("/apis/{api}/namespaces/{namespace}/{plural}"),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: object.to_string().into_bytes(),
    };
    let answer = ask.send(&world.client()).await?;
    ensure!(answer.code == 201, "{answer:?}");
    Ok(answer.warnings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_training_job_whose_runtime_names_no_scheduler_are_placed_by_ours() -> Result<()>
{
    let choices = Choices { default_scheduler: Some(OURS.to_owned()), ..Choices::default() };
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let mut queued = job("queued", "plain", 2);
            queued["metadata"]["labels"] = json!({"kai.scheduler/queue": "default-queue"});
            let api = "trainer.kubeflow.org/v1alpha1";
            queued["spec"]["runtimeRef"]["name"] = json!(world.own("plain"));
            let warnings = warned(world, api, "trainjobs", &queued).await?;
            ensure!(warnings.is_empty(), "the queue is read: {warnings:?}");
            placed_by(&world.pods_in(&selector("queued"), 2, "Running").await?, OURS)?;
            let mut own = torch("own", held());
            own["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
                ["spec"]["schedulerName"] = json!("default-scheduler");
            world.create_object(own).await?;
            world.train(job("other", "own", 1)).await?;
            placed_by(&world.pods_in(&selector("other"), 1, "Running").await?, "default-scheduler")
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_the_scheduler_of_the_pods_does_not_read_is_a_warning() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let label = json!({"kai.scheduler/queue": "team-a"});
            let mut train = job("queued", &world.own("plain"), 1);
            train["metadata"]["labels"] = label.clone();
            let mut serve = kthena("queued", 0, &[("a", 1, 0, 0)]);
            serve["metadata"]["labels"] = label;
            for (api, plural, object) in [
                ("trainer.kubeflow.org/v1alpha1", "trainjobs", train),
                ("workload.serving.volcano.sh/v1alpha1", "modelservings", serve),
            ] {
                let warnings = warned(world, api, plural, &object).await?;
                let says = |warning: &String| {
                    warning.contains("nobody reads the queue")
                        && warning.contains("default-scheduler")
                };
                ensure!(warnings.iter().any(says), "{plural}: {warnings:?}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_charts_default_model_servings_without_a_scheduler_are_placed_by_ours()
-> Result<()> {
    if World::is_real() {
        // Others use its definitions.
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            // As deploy/chart/templates/_objects.tpl does it.
            let of_servings = "/properties/spec/properties/schedulerName/default";
            let of_pods = "/properties/spec/properties/roles/items/properties/template/properties/spec/properties/schedulerName/default";
            let definitions: Api<CustomResourceDefinition> = Api::all(world.client());
            for (group, place) in
                [("workload.serving.volcano.sh", of_servings), ("workload.kthena.io", of_pods)]
            {
                let path = format!("/spec/versions/0/schema/openAPIV3Schema{place}");
                let change = json!([{"op": "add", "path": path, "value": OURS}]);
                let change = Patch::<()>::Json(serde_json::from_value(change)?);
                let name = format!("modelservings.{group}");
                definitions.patch(&name, &PatchParams::default(), &change).await?;
            }
            let mut large = kthena("large", 2, &[("a", 1, 1, 0)]);
            large["spec"].as_object_mut().context("no spec")?.remove("schedulerName");
            world.create_object(large).await?;
            placed_by(&world.pods_in(&serving::selector("large"), 4, "Running").await?, OURS)?;
            let mut short = seed("short", "", &[("a", 2, 0)]);
            short["metadata"]["annotations"] = json!({});
            world.create_object(short).await?;
            placed_by(&world.pods_in(&serving::selector("short"), 2, "Running").await?, OURS)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_kthenas_compatibility_they_say_volcano_and_are_placed_by_ours_all_the_same()
-> Result<()> {
    let mut choices = Choices::default();
    let names = vec![OURS.to_owned(), "volcano".to_owned()];
    choices.placement.cluster.scheduler_names = names.clone();
    choices.placement.grouping.scheduler_names = names;
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            let mut large = kthena("large", 2, &[("a", 1, 1, 0)]);
            large["spec"].as_object_mut().context("no spec")?.remove("schedulerName");
            world.create_object(large).await?;
            placed_by(&world.pods_in(&serving::selector("large"), 4, "Running").await?, "volcano")
        })
        .await
}
