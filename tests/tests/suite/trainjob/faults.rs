//! An API server that refuses at every step.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use muster_sandbox::faults::Rule;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::jobset::selector;

use super::{complete, held, job, made, mpi, workload};

/// What a coordinator writes for a job.
const STEPS: [(&str, &str); 5] = [
    ("patch", "configmaps"),
    ("patch", "secrets"),
    ("patch", "jobsets.jobset.x-k8s.io"),
    ("patch", "trainjobs.trainer.kubeflow.org"),
    ("patch", "clustertrainingruntimes.trainer.kubeflow.org"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_refuses_every_step_some_times_ends_with_the_same_objects() -> Result<()>
{
    if World::is_real() {
        eprintln!("left out: a real server fails when it likes");
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(mpi("mpi", held(), held())).await?;
            let secrets = watcher(world.api::<Secret>(), watcher::Config::default());
            let mut secrets = secrets.default_backoff().applied_objects().boxed();
            let seen = tokio::spawn(async move {
                let mut uids = BTreeSet::new();
                while let Some(event) = secrets.next().await {
                    if let Ok(secret) = event
                        && secret.name_any().ends_with("-mpi-ssh-auth")
                    {
                        uids.insert(secret.uid());
                        if secret.name_any() == "end-mpi-ssh-auth" {
                            break;
                        }
                    }
                }
                uids.len()
            });
            let faults = world.sandbox().context("a sandbox")?.faults();
            let mut jobs = 0;
            for code in [409, 429, 500] {
                let name = format!("stubborn-{code}");
                for (verb, resource) in STEPS {
                    faults.add(Rule::refusal(code).verb(verb).resource(resource).times(3));
                }
                world.train(job(&name, "mpi", 2)).await?;
                workload(world, &name).await?;
                world.pods_in(&selector(&name), 3, "Running").await?;
                ensure!(made(world, &name).await?.iter().all(|uid| !uid.is_empty()));
                jobs += 1;
            }
            let struck = faults.struck();
            faults.clear();
            ensure!(struck >= 3 * 3 * 3, "only {struck} faults struck");
            world.gate().open();
            for code in [409, 429, 500] {
                complete(world, &format!("stubborn-{code}")).await?;
            }
            world.train(job("end", "mpi", 1)).await?;
            assert_eq!(seen.await?, jobs + 1, "one key each");
            Ok(())
        })
        .await
}
