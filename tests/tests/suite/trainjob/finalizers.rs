//! Runtimes that are used carry a finalizer, others do not.

use anyhow::Result;
use kube::api::{Api, DeleteParams, DynamicObject};
use muster_tests::World;
use muster_tests::world::Seen;
use serde_json::json;

use super::{held, job, torch};

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
