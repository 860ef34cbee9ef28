//! When nothing is to be done nothing is written, also by a coordinator that has just begun.

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::{Guillotine, Seen};
use serde_json::{Value, json};

use super::{change, held, job, mpi, torch, workload};

/// Jobs of each kind.
const MANY: usize = 5;

/// Decisions of the leader about TrainJobs: reconciles that were more than a look at an echo.
pub fn passes(world: &World) -> Result<u64> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let text = {
        let mut text = String::new();
        let registry = &leader.coordinator().status().registry;
        prometheus_client::encoding::text::encode(&mut text, registry)?;
        text
    };
    let line =
        text.lines().find(|line| line.starts_with("muster_trainjob_decide_duration_seconds_count"));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_coordinator_has_written_itself_is_no_reason_to_look_again() -> Result<()> {
    if World::is_real() {
        eprintln!(
            "left out: only a sandbox can do without the JobSet controller, which writes too"
        );
        return Ok(());
    }
    World::new()
        .alone()
        .coordinators(1)
        .run(async |world| {
            world.create_object(mpi("mpi", held(), held())).await?;
            // Somebody else's job: for it nothing is written but the finalizer of the runtime, which concerns all.
            let mut foreign = job("foreign", "mpi", 1);
            foreign["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
            world.train(foreign).await?;
            let before = world
                .until("a runtime in use", async || {
                    let runtime = world.cluster_runtimes().get("mpi").await?;
                    let used = runtime.metadata.finalizers.is_some_and(|all| !all.is_empty());
                    let looks = passes(world)?;
                    Ok(if used && looks > 0 {
                        Seen::Yes(looks)
                    } else {
                        Seen::NotYet(format!("{looks}"))
                    })
                })
                .await?;
            for number in 0..=MANY {
                let name = format!("echo-{number}");
                let mut job = job(&name, "mpi", 1);
                job["spec"]["suspend"] = json!(true);
                world.train(job).await?;
                // The status is the last of its writes; the next job's echoes come after those of this one.
                world.trainjob_is(&name, "Suspended", "True").await?;
            }
            let looks = passes(world)?;
            // What comes late, on a busy machine, may need a second one now and then; each job has five writes.
            let each = (looks - before) as f64 / (MANY as f64 + 1.0);
            ensure!((1.0..2.0).contains(&each), "{each} looks at each job");
            // What somebody else does is one.
            world.jobsets().delete("echo-0", &DeleteParams::background()).await?;
            workload_again(world, "echo-0").await?;
            // It counts when it has ended.
            world
                .until("one more look", async || {
                    let now = passes(world)?;
                    Ok(if now > looks { Seen::Yes(()) } else { Seen::NotYet(format!("{now}")) })
                })
                .await
        })
        .await
}

/// Waits until there is a JobSet that is not being deleted.
async fn workload_again(world: &World, name: &str) -> Result<()> {
    world
        .until(&format!("another JobSet {name}"), async || {
            let found = world.jobsets().get_opt(name).await?;
            let found = found.filter(|it| it.metadata.deletion_timestamp.is_none());
            Ok(found.map_or(Seen::NotYet("none".to_owned()), |_| Seen::Yes(())))
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
