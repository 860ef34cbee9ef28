//! When nothing is to be done nothing is written, also by a coordinator that has just begun.

use anyhow::{Context, Result, ensure};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::{Guillotine, Seen};
use serde_json::{Value, json};

use super::{change, held, job, mpi, torch, workload};

/// Jobs of each kind.
const MANY: usize = 5;

/// Looks of the leader at TrainJobs.
pub fn passes(world: &World) -> Result<u64> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let text = {
        let mut text = String::new();
        let registry = &leader.coordinator().status().registry;
        prometheus_client::encoding::text::encode(&mut text, registry)?;
        text
    };
    let line = text.lines().find(|line| line.starts_with("muster_trainjob_passes_total"));
    Ok(line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_begins_and_jobs_that_are_touched_need_no_write() -> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 2)
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("torch", held())).await?;
            world.create_object(mpi("mpi", held(), held())).await?;
            let mut names = Vec::new();
            for number in 0..MANY {
                let mut add = async |kind: &str, suspend: bool| -> Result<()> {
                    let name = format!("{kind}-{suspend}-{number}");
                    let mut job = job(&name, kind, 1);
                    job["spec"]["suspend"] = json!(suspend);
                    world.train(job).await?;
                    names.push(name);
                    Ok(())
                };
                add("torch", false).await?;
                add("torch", true).await?;
                add("mpi", false).await?;
                add("mpi", true).await?;
            }
            for name in &names {
                workload(world, name).await?;
                settled(world, name).await?;
            }
            let guillotine = Guillotine::new(world.namespace());
            let own = guillotine.clone();
            world.add_coordinator_with(|client| own.client(client).1).await?;
            world.coordinators_mut()?.end(0).await?;
            world
                .until("a look at every job by the new leader", async || {
                    let passes = passes(world).unwrap_or_default();
                    let done = passes >= names.len() as u64;
                    Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{passes}")) })
                })
                .await?;
            assert_eq!(guillotine.writes(), [""; 0], "after a change of leaders");
            let before = passes(world)?;
            for name in &names {
                change(world, name, json!({"metadata": {"annotations": {"touched": "yes"}}}))
                    .await?;
            }
            world
                .until("another look at every job", async || {
                    let passes = passes(world)? - before;
                    let done = passes >= names.len() as u64;
                    Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{passes}")) })
                })
                .await?;
            assert_eq!(guillotine.writes(), [""; 0], "after all were touched");
            Ok(())
        })
        .await
}

/// Waits until a job's status says what its JobSet says, which does not change any more.
pub async fn settled(world: &World, name: &str) -> Result<()> {
    world
        .until(&format!("the status of {name}"), async || {
            let (job, set) = (world.trainjob(name).await?, world.jobset(name).await?);
            let said = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let jobs = said(&job["status"]["jobsStatus"]);
            let theirs = said(&set["status"]["replicatedJobsStatus"]);
            let suspended = job["spec"]["suspend"] == true;
            let key = if suspended { "suspended" } else { "ready" };
            // A launcher waits for its nodes, which are suspended.
            let counted = |one: &&Value| !suspended || one["name"] != "launcher";
            let quiet =
                !theirs.is_empty() && theirs.iter().filter(counted).all(|one| one[key] == 1);
            ensure!(jobs.len() <= theirs.len(), "{jobs:?}");
            Ok(match quiet && jobs == theirs {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("{jobs:?}, {theirs:?}")),
            })
        })
        .await
}
