//! Many callers at once: every answer is true afterwards, nothing is made twice, and nobody waits for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::dijob::{Caller, selector};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::running;

const CLIENTS: usize = 200;
const JOBS: usize = 50;
/// Rounds of a client: what DI-engine does, one look a second, is faster here.
const ROUNDS: usize = 5;
/// A round of a client takes at least so long: DI-engine looks once a second. A debug build has twice the time.
const ROUND: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 1000 });

/// What a client was told, by job.
#[derive(Default)]
struct Told {
    made: Vec<String>,
    /// Made, and not listed right after: somebody else must have given it back.
    missed: Vec<String>,
    gone: Vec<String>,
    took: Vec<Duration>,
}

fn urls(said: &Value) -> Vec<String> {
    let list = |key: &str| said["data"][key].as_array().cloned().unwrap_or_default();
    let all = list("collectors").into_iter().chain(list("learners"));
    all.filter_map(|url| url.as_str().map(str::to_owned)).collect()
}

/// One client of a job: it asks for replicas, looks what is there, and gives some back.
async fn client(
    mut caller: Caller,
    space: String,
    job: String,
    number: usize,
    begin: Arc<Barrier>,
) -> Result<Told> {
    let coordinator = format!("{job}-coordinator");
    let mut told = Told::default();
    begin.wait().await;
    // As processes on many machines do, they do not all ask in the same millisecond.
    tokio::time::sleep(ROUND.mul_f64(number as f64 / CLIENTS as f64)).await;
    for round in 0..ROUNDS {
        let next = Instant::now() + ROUND;
        let since = Instant::now();
        let (one, none) = (json!({"replicas": 1}), json!({"replicas": 0}));
        let said = match round {
            0 => caller.create(&space, &coordinator, &one, &one).await?,
            1 => caller.create(&space, &coordinator, &one, &none).await?,
            3 => {
                let body = json!({"namespace": space, "coordinator": coordinator, "collectors": {"replicas": 1}});
                caller.ask("DELETE", "/v1alpha1/replicas", body.to_string()).await?
            }
            _ => caller.query(&space, &coordinator).await?,
        };
        told.took.push(since.elapsed());
        ensure!(said.0 == 200, "{said:?}");
        match round {
            0 | 1 => {
                let made = urls(&said.1);
                ensure!(made.len() == 2 - round, "{said:?}");
                let since = Instant::now();
                let seen = caller.query(&space, &coordinator).await?;
                told.took.push(since.elapsed());
                let listed: BTreeSet<String> = urls(&seen.1).into_iter().collect();
                told.missed.extend(made.iter().filter(|url| !listed.contains(*url)).cloned());
                told.made.extend(made);
            }
            3 => told.gone.extend(urls(&said.1)),
            _ => {}
        }
        tokio::time::sleep_until(next.into()).await;
    }
    Ok(told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_of_fifty_jobs_are_told_the_truth() -> Result<()> {
    World::new()
        .bare_nodes_of(muster_sandbox::hardware::Profile::Ascend910b8, 10)
        .coordinators(1)
        .choices(Choices { lease: Duration::from_secs(15), ..Choices::default() })
        .run(async |world| {
            let names: Vec<String> = (0..JOBS).map(|number| format!("crowd-{number}")).collect();
            for name in &names {
                let mut job = super::job(name, "Running");
                for role in ["collector", "learner"] {
                    // Nobody runs them: what is asked here is the server, not the nodes.
                    job["spec"][role]["template"]["spec"]["schedulerName"] = json!("nobody");
                }
                world.create_object(job).await?;
            }
            for name in &names {
                world.dijob_is(name, "Running").await?;
            }
            let space = world.namespace().to_owned();
            let begin = Arc::new(Barrier::new(CLIENTS));
            let mut clients = tokio::task::JoinSet::new();
            for number in 0..CLIENTS {
                let caller = world.di_caller().await?;
                let job = names.get(number % JOBS).context("no job")?.clone();
                let (space, begin) = (space.clone(), begin.clone());
                clients.spawn(async move {
                    let told = client(caller, space, job.clone(), number, begin).await;
                    (job, told)
                });
            }
            let mut by_job: BTreeMap<String, Vec<Told>> = BTreeMap::new();
            while let Some(ended) = clients.join_next().await {
                let (job, told) = ended?;
                by_job.entry(job).or_default().push(told?);
            }
            let mut took = Vec::new();
            for name in &names {
                let told = by_job.remove(name).context("nobody asked")?;
                took.extend(told.iter().flat_map(|told| told.took.clone()));
                let made: Vec<&String> = told.iter().flat_map(|told| &told.made).collect();
                let gone: BTreeSet<&String> = told.iter().flat_map(|told| &told.gone).collect();
                let distinct: BTreeSet<&String> = made.iter().copied().collect();
                assert_eq!(distinct.len(), made.len(), "no address is handed out twice");
                let deletes = told.iter().map(|told| told.gone.len()).sum::<usize>();
                assert_eq!(gone.len(), deletes, "none is given back twice");
                let missed: Vec<&String> = told.iter().flat_map(|told| &told.missed).collect();
                assert!(
                    missed.iter().all(|url| gone.contains(url)),
                    "what is made is listed: {missed:?}"
                );
                let host = |url: &&String| url.split('.').next().unwrap_or_default().to_owned();
                let mut expected: BTreeSet<String> = distinct.difference(&gone).map(host).collect();
                expected.insert(format!("{name}-coordinator"));
                let pods = world.pods(&selector(name)).await?;
                let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
                let there: BTreeSet<String> = there.map(ResourceExt::name_any).collect();
                assert_eq!(there, expected, "what was told is what is there: {name}");
            }
            took.sort_unstable();
            let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default();
            println!(
                "{} requests of {CLIENTS} clients: p50 {:.1?}, p99 {:.1?}, longest {:.1?}",
                took.len(),
                at(50),
                at(99),
                took.last().copied().unwrap_or_default()
            );
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_delete_at_once_never_get_the_same_replica() -> Result<()> {
    World::new()
        .bare_nodes_of(muster_sandbox::hardware::Profile::Ascend910b8, 1)
        .coordinators(1)
        .run(async |world| {
            running(world, "shrink", "Running").await?;
            let space = world.namespace().to_owned();
            let mut caller = world.di_caller().await?;
            let none = json!({"replicas": 0});
            let twenty = json!({"replicas": 20});
            let (status, _) = caller.create(&space, "shrink-coordinator", &twenty, &none).await?;
            ensure!(status == 200);
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..10 {
                let mut caller = world.di_caller().await?;
                let body = json!({"namespace": space, "coordinator": "shrink-coordinator", "collectors": {"replicas": 3}});
                clients.spawn(async move { caller.ask("DELETE", "/v1alpha1/replicas", body.to_string()).await });
            }
            let mut gone = Vec::new();
            while let Some(said) = clients.join_next().await {
                gone.extend(urls(&said??.1));
            }
            let distinct: BTreeSet<&String> = gone.iter().collect();
            assert_eq!((gone.len(), distinct.len()), (20, 20), "all go, each once");
            Ok(())
        })
        .await
}
