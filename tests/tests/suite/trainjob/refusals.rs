//! What cannot work is refused when it is written, and the refusal says where.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use muster_sandbox::faults::{Fault, Rule};
use muster_tests::World;
use muster_tests::world::Seen;
use serde_json::{Value, json};

use super::{held, job, mpi, runtime, step, torch, workload};

/// The refusal of an object has all of these words.
async fn refused(world: &World, object: Value, words: &[&str]) -> Result<()> {
    let name = object["metadata"]["name"].clone();
    world
        .until(&format!("the refusal of {name}"), async || {
            let Err(error) = world.create_object(object.clone()).await else {
                anyhow::bail!("{name} was taken");
            };
            let said = format!("{error:#}");
            // The webhook may not have heard of the runtime yet.
            let early = said.contains("must be created before")
                && !words.concat().contains("must be created");
            ensure!(early || words.iter().all(|word| said.contains(word)), "{said}, not {words:?}");
            Ok(if early { Seen::NotYet(said) } else { Seen::Yes(()) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_jobs_and_runtimes_is_said_with_its_field() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            world.create_object(mpi("mpi", held(), held())).await?;
            refused(
                world,
                job("lost", "nowhere", 1),
                &["spec.RuntimeRef", "nowhere\" not found", "must be created"],
            )
            .await?;
            let mut odd = job("odd", "plain", 1);
            odd["spec"]["runtimeRef"]["kind"] = json!("Other");
            refused(world, odd, &["unsupported runtime: Other.trainer.kubeflow.org"]).await?;
            let mut env = job("env", "plain", 1);
            env["spec"]["trainer"]["env"] = json!([{"name": "PET_NNODES", "value": "3"}]);
            refused(world, env, &["spec.trainer.env", "PET_NNODES"]).await?;
            let mut env = job("env", "mpi", 1);
            env["spec"]["trainer"]["env"] =
                json!([{"name": "OMPI_MCA_orte_default_hostfile", "value": "/x"}]);
            refused(world, env, &["spec.trainer.env"]).await?;
            let mut patched = job("patched", "plain", 1);
            patched["spec"]["runtimePatches"] = json!([{"manager": "nobody"}]);
            refused(world, patched, &["spec.runtimePatches.manager"]).await?;
            let mut twice = torch("twice", held());
            twice["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = json!(2);
            refused(world, twice, &["spec.template.spec.replicatedJobs[0].replicas", "must be 1"])
                .await?;
            let mut unnamed = torch("unnamed", held());
            unnamed["kind"] = json!("TrainingRuntime");
            unnamed["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
                ["spec"]["containers"][0]["name"] = json!("main");
            let field =
                "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers";
            refused(world, unnamed, &[field]).await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_processes_are_refused_by_the_webhook_with_flux_and_by_the_definition_else() -> Result<()>
{
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let flux = json!({"numNodes": 1, "flux": {}});
            world.create_object(runtime("flux", flux, vec![step("node", true, held())])).await?;
            let field = "spec.trainer.numProcPerNode: Invalid value";
            for (runtime, code, why) in [
                ("flux", 403, "must be greater than or equal to 1 for Flux TrainJob"),
                ("plain", 422, "numProcPerNode must be greater than or equal to 1"),
            ] {
                let mut none = job("none", runtime, 1);
                none["spec"]["trainer"]["numProcPerNode"] = json!(0);
                let Err(error) = world.create_object(none).await else {
                    anyhow::bail!("taken with {runtime}")
                };
                let said = format!("{error:#}");
                ensure!(said.contains(field) && said.contains(why), "{said}");
                let refused = error.downcast_ref::<kube::Error>();
                let Some(kube::Error::Api(refused)) = refused else { anyhow::bail!("{said}") };
                assert_eq!(refused.code, code, "{said}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_judged_by_its_runtime_as_it_is_though_the_caches_lag_behind() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a real server's watches end when it likes");
        return Ok(());
    }
    World::new()
        .coordinators(1)
        .run(async |world| {
            let policy = json!({"numNodes": 1});
            let mut changing = runtime("changing", policy, vec![step("node", true, held())]);
            world.create_object(changing.clone()).await?;
            world.train(job("earlier", "changing", 1)).await?;
            workload(world, "earlier").await?;
            // The watch ends with the change, and no other begins.
            let kind = "clustertrainingruntimes.trainer.kubeflow.org";
            let faults = world.sandbox().context("a sandbox")?.faults();
            faults.add(Rule::refusal(503).verb("list").resource(kind));
            faults.add(Rule::refusal(503).verb("watch").resource(kind));
            faults.add(Rule::new(Fault::DropWatches).verb("patch").resource(kind).times(1));
            changing["spec"]["mlPolicy"] = json!({"numNodes": 1, "flux": {}});
            let runtimes = world.cluster_runtimes();
            runtimes.patch("changing", &PatchParams::default(), &Patch::Merge(changing)).await?;
            let mut none = job("none", "changing", 1);
            none["spec"]["trainer"]["numProcPerNode"] = json!(0);
            let Err(error) = world.create_object(none).await else { anyhow::bail!("taken") };
            let said = format!("{error:#}");
            ensure!(
                said.contains("must be greater than or equal to 1 for Flux TrainJob"),
                "{said}"
            );
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_gets_the_time_of_its_last_change() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let mut patched = job("patched", "plain", 1);
            let patch = json!({"manager": "example.com/me", "trainingRuntimeSpec": {"template": {"metadata":
                {"labels": {"by": "me"}}}}});
            patched["spec"]["suspend"] = json!(true);
            patched["spec"]["runtimePatches"] = json!([patch]);
            let made = world.train(patched).await?;
            let time = made["spec"]["runtimePatches"][0]["time"].clone();
            ensure!(time.is_string(), "{}", made["spec"]);
            let set = super::workload(world, "patched").await?;
            assert_eq!(set["metadata"]["labels"]["by"], "me");
            // A label that is no longer asked for goes.
            let other = json!({"spec": {"runtimePatches": [{"manager": "example.com/me"}]}});
            super::change(world, "patched", other).await?;
            world
                .until("no label", async || {
                    let set = world.jobset("patched").await?;
                    let label = set["metadata"]["labels"]["by"].clone();
                    let seen = label.to_string();
                    Ok(if label.is_null() { Seen::Yes(()) } else { Seen::NotYet(seen) })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_created_right_after_its_runtime_is_taken() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            for number in 0..20 {
                let name = format!("fresh-{number}");
                let mut runtime = torch(&name, held());
                if number % 2 == 0 {
                    runtime["kind"] = json!("TrainingRuntime");
                }
                let mut one = job(&name, &name, 1);
                one["spec"]["runtimeRef"]["kind"] = runtime["kind"].clone();
                world.create_object(runtime).await?;
                world.create_object(one).await?;
            }
            Ok(())
        })
        .await
}
