//! Measures how long callers of the DI server wait when many ask at once, and whether they are told the truth.
//!
//! ```text
//!   200 clients of 50 jobs: create, query, create, query, query, delete, query; one round a second, not all at the same time
//!   ── every answer against the pods that are there afterwards ── p50, p99, longest
//! ```
//!
//! One process: the API server with its controllers and nodes on one runtime, the coordinator on its own.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use muster_sandbox::hardware::Profile;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::bench;
use crate::delivery::report::{Report, at, millis};
use crate::world::coordinators::Choices;
use crate::world::dijob::{Caller, selector};
use crate::world::{HOLD, Plan, World};

/// What nearly all answers must be within, in milliseconds.
const P99: f64 = 100.0;
/// Rounds of a client: what DI-engine does, one look a second, is faster here.
const ROUNDS: usize = 5;

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "dijobs", about = "How long many callers of the DI server wait")]
pub struct Args {
    /// Clients
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// DIJobs that they share
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
}

/// Who asks, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many clients there are.
    pub clients: usize,
    /// Jobs that they share.
    pub jobs: usize,
    /// A round of a client takes at least so long: DI-engine looks once a second.
    pub round: Duration,
}

/// What a client was told.
#[derive(Default)]
struct Told {
    made: Vec<String>,
    /// Made, and not listed right after: somebody else must have given it back.
    missed: Vec<String>,
    gone: Vec<String>,
    took: Vec<Duration>,
}

/// Measures and prints; fails when a limit is missed by more than noise.
pub fn main(args: Args) -> ExitCode {
    bench::run("dijobs", async |_| {
        let Args { clients, jobs } = args;
        let crowd = Crowd { clients, jobs: jobs.into(), round: Duration::from_secs(1) };
        println!("{clients} clients ask for replicas of {jobs} DIJobs, all in one process");
        let mut took = Vec::new();
        crowd
            .plan()
            .run(async |world| {
                took = crowd.ask(world).await?;
                Ok(())
            })
            .await?;
        let mut report = Report::default();
        report.part("every answer agrees with the pods that are there afterwards");
        report.plain("requests", took.len());
        report.spread("each of them", &took);
        report.limit("nearly all of them (p99)", millis(at(&took, 0.99)), P99, "ms");
        Ok(report.verdict())
    })
}

/// The addresses in an answer.
pub fn urls(said: &Value) -> Vec<String> {
    let list = |key: &str| said["data"][key].as_array().cloned().unwrap_or_default();
    let all = list("collectors").into_iter().chain(list("learners"));
    all.filter_map(|url| url.as_str().map(str::to_owned)).collect()
}

/// A job whose coordinator runs; nobody runs the others: what is asked here is the server, not the nodes.
fn job(name: &str) -> Value {
    let replica = |image: &str, scheduler: Value| {
        json!({"template": {"spec": {"terminationGracePeriodSeconds": 1, "schedulerName": scheduler,
            "containers": [{"name": "di-container", "image": image}]}}})
    };
    let nobody = || replica("ding", json!("nobody"));
    json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob", "metadata": {"name": name},
        "spec": {"cleanPodPolicy": "Running", "coordinator": replica(HOLD, json!(null)),
            "collector": nobody(), "learner": nobody()}})
}

// === impl Crowd ===

impl Crowd {
    /// The world that they need.
    pub fn plan(self) -> Plan {
        // As coordinators are shipped: on shared cores a short lease would end for want of a turn.
        let choices = Choices { lease: Duration::from_secs(15), ..Choices::default() };
        World::new().bare_nodes_of(Profile::Ascend910b8, 10).coordinators(1).choices(choices)
    }

    /// Lets all of them ask, and compares what they were told with what is there; how long each answer took, sorted.
    pub async fn ask(self, world: &World) -> Result<Vec<Duration>> {
        let names: Vec<String> = (0..self.jobs).map(|number| format!("crowd-{number}")).collect();
        for name in &names {
            world.create_object(job(name)).await?;
        }
        for name in &names {
            world.dijob_is(name, "Running").await?;
        }
        let begin = Arc::new(Barrier::new(self.clients));
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..self.clients {
            let caller = world.di_caller().await?;
            let job = names.get(number % self.jobs).context("no job")?.clone();
            let (space, begin) = (world.namespace().to_owned(), begin.clone());
            clients.spawn(async move {
                begin.wait().await;
                (job.clone(), self.client(caller, space, job, number).await)
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
            is_true(world, name, &told).await?;
        }
        took.sort_unstable();
        Ok(took)
    }

    /// One client of a job: it asks for replicas, looks what is there, and gives some back.
    async fn client(
        self,
        mut caller: Caller,
        space: String,
        job: String,
        number: usize,
    ) -> Result<Told> {
        let coordinator = format!("{job}-coordinator");
        let mut told = Told::default();
        // As processes on many machines do, they do not all ask in the same millisecond.
        tokio::time::sleep(self.round.mul_f64(number as f64 / self.clients as f64)).await;
        for round in 0..ROUNDS {
            let next = Instant::now() + self.round;
            let since = Instant::now();
            let (one, none) = (json!({"replicas": 1}), json!({"replicas": 0}));
            let said = match round {
                0 => caller.create(&space, &coordinator, &one, &one).await?,
                1 => caller.create(&space, &coordinator, &one, &none).await?,
                3 => {
                    let body = json!({"namespace": space, "coordinator": coordinator, "collectors": {"replicas": 1}});
                    caller.ask("DELETE", muster_dijob::server::REPLICAS, body.to_string()).await?
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
}

/// Whether what the clients of a job were told is what is there.
async fn is_true(world: &World, name: &str, told: &[Told]) -> Result<()> {
    let made: Vec<&String> = told.iter().flat_map(|told| &told.made).collect();
    let gone: BTreeSet<&String> = told.iter().flat_map(|told| &told.gone).collect();
    let distinct: BTreeSet<&String> = made.iter().copied().collect();
    ensure!(distinct.len() == made.len(), "an address of {name} is handed out twice: {made:?}");
    let deletes = told.iter().map(|told| told.gone.len()).sum::<usize>();
    ensure!(gone.len() == deletes, "a replica of {name} is given back twice");
    let missed: Vec<&String> = told.iter().flat_map(|told| &told.missed).collect();
    ensure!(missed.iter().all(|url| gone.contains(url)), "made and not listed: {missed:?}");
    let host = |url: &&String| url.split('.').next().unwrap_or_default().to_owned();
    let mut expected: BTreeSet<String> = distinct.difference(&gone).map(host).collect();
    expected.insert(format!("{name}-coordinator"));
    let pods = world.pods(&selector(name)).await?;
    let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let there: BTreeSet<String> = there.map(ResourceExt::name_any).collect();
    ensure!(there == expected, "of {name} was told {expected:?}, and there are {there:?}");
    Ok(())
}
