//! Measures how fast TrainJobs become JobSets, and what that costs the API server.
//!
//! ```text
//!   a torch job and its runtime ──▶ objects, as often as one core can
//!   create ──▶ coordinator: snapshot, JobSet, status ──▶ the last JobSet is there
//!   └───────────────────────── a ──────────────────────────────────────┘
//!   a against: the time that a plain loop takes for the same writes
//!   touch ──▶ coordinator: nothing
//! ```
//!
//! One process: the API server on one runtime, the coordinator on its own. First nobody else writes, and the limit is judged
//! there. Then the sandbox's controllers make Jobs and pods of the JobSets on the same cores, and what they write counts too.
//!
//! With `MUSTER_KUBECONFIG` the same is measured on a real cluster, and the loop sends the same writes to the same cluster: see
//! `real`.

mod load;
mod real;
mod render;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::bench;
use crate::delivery::report::Report;
use crate::delivery::scrape::Figures;
use crate::servings::recorder::{Recorder, Write};
use crate::servings::{counted, figures, quiet, replay};
use crate::world::coordinators::Choices;
use crate::world::{Plan, Seen, World, until};
use load::{Arrivals, Load};

/// How long anything may take; it ends as soon as it is so.
const PATIENCE: Duration = Duration::from_secs(900);
/// Between two looks: they are work for the cores that are measured.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What one core must render in a second.
const RENDERS: f64 = 10_000.0;

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "trainjobs", about = "How fast many TrainJobs become JobSets")]
pub struct Args {
    /// TrainJobs
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
}

/// What was seen.
struct Run {
    /// From the first create to the last JobSet.
    took: Duration,
    /// The same per TrainJob, sorted.
    each: Vec<Duration>,
    /// All that was written until then, with the creates of the TrainJobs.
    writes: Vec<Write>,
    /// Changes in the store meanwhile, whoever made them.
    changes: u64,
    /// Where it was.
    namespace: String,
    /// How often it looked when nothing meant anything, and what it wrote.
    looks: f64,
    resync: Vec<Write>,
    coordinator: Figures,
}

/// Measures and prints; fails when a limit is missed by more than noise.
pub fn main(args: Args) -> ExitCode {
    bench::run("trainjobs", async |_| measure(args).await)
}

async fn measure(args: Args) -> anyhow::Result<bool> {
    let mut report = Report::default();
    if World::is_real() {
        return real::measure(Load { jobs: args.jobs }, report).await;
    }
    report.part("a torch job and its runtime, rendered on one core");
    let one = render::one()?;
    report.plain("renders in a second", format!("{:.0}", 1.0 / one.as_secs_f64()));
    report.limit("one render", one.as_secs_f64() * 1e6, 1e6 / RENDERS, "us");

    let load = Load { jobs: args.jobs };
    println!("\n{} TrainJobs of 2 nodes, one coordinator, all in one process", load.jobs);
    println!("\nA. nobody writes but the coordinator and this benchmark");
    let (run, floor) = compared(load, World::new().alone(), &mut report).await?;
    let ratio = run.took.as_secs_f64() / floor.as_secs_f64();
    report.strict("all JobSets, against a loop of the same writes", ratio, 2.0, "x");
    report.part("every TrainJob is touched, and nothing is to be done");
    report.plain("looks of the coordinator at a TrainJob", run.looks);
    let written: Vec<String> = run.resync.iter().map(Write::to_string).collect();
    report.none("writes of the coordinator, but for its lease", &written);

    println!("\nB. the sandbox's JobSet and Job controllers work on the same cores");
    let (run, floor) = compared(load, World::new(), &mut report).await?;
    report.plain("changes in the store, with those of the JobSet controller", run.changes);
    let done = run.writes.iter().filter(|write| write.is_done()).count();
    let whole = floor.div_f64(done.max(1) as f64).mul_f64(run.changes as f64);
    report.time("as many writes by a plain loop as there were changes", whole);
    let ratio = run.took.as_secs_f64() / whole.as_secs_f64();
    report.limit("all JobSets, against a loop of as many writes", ratio, 2.0, "x");
    let ratio = run.took.as_secs_f64() / floor.as_secs_f64();
    report.plain("the same, against a loop of these writes alone", format!("{ratio:.2} x"));
    let written: Vec<String> = run.resync.iter().map(Write::to_string).collect();
    report.none("writes of the coordinator when nothing is to be done", &written);
    Ok(report.verdict())
}

/// Measures in such a world, and the same writes by a plain loop.
async fn compared(load: Load, plan: Plan, report: &mut Report) -> anyhow::Result<(Run, Duration)> {
    let run = measured(load, plan).await?;
    let (done, refused): (Vec<Write>, Vec<Write>) =
        run.writes.iter().cloned().partition(Write::is_done);
    eprintln!("the same {} writes, by a plain loop …", done.len());
    let floor = replay::replay(&done).await?;
    fill(report, &run, &refused, &floor, done.len());
    Ok((run, floor.took))
}

/// What was seen, beside the loop.
fn fill(report: &mut Report, run: &Run, refused: &[Write], floor: &replay::Replayed, done: usize) {
    report.part("from the first TrainJob to the last JobSet");
    report.time("all JobSets are there", run.took);
    report.spread("each TrainJob, from its creation to its JobSet", &run.each);
    report.part("writes until then");
    counted(report, &run.writes);
    report.plain(
        "all of these (the TrainJobs are ours, the others the coordinator's)",
        run.writes.len(),
    );
    report.plain("of these, refused or without an answer", refused.len());
    refused.iter().take(5).for_each(|write| println!("    {write}"));
    report.plain("looks of the coordinator at a TrainJob", run.coordinator.get(COUNT));
    let thought = Duration::from_secs_f64(run.coordinator.get(SUM).max(0.0));
    report.time("time that it thought", thought);
    report.part("the same writes, by a plain loop");
    report.time("all of them, one after the other", floor.took);
    report.time("one of them", floor.took.div_f64(done.max(1) as f64));
    report.none("refused there", &floor.refused);
}

const COUNT: &str = "muster_trainjob_decide_duration_seconds_count";
const SUM: &str = "muster_trainjob_decide_duration_seconds_sum";

async fn measured(load: Load, plan: Plan) -> anyhow::Result<Run> {
    let mut result = None;
    // As they are shipped: on shared cores a short lease would end for want of a turn.
    let choices = Choices { lease: Duration::from_secs(15), ..Choices::default() };
    plan.coordinators(1)
        .choices(choices)
        .run(async |world| {
            let recorder = Recorder::default();
            world.add_coordinator_with(|client| recorder.client(client)).await?;
            world.coordinators_mut()?.end(0).await?;
            until("a leader", PATIENCE, async || {
                let leader = world.coordinators()?.leader().is_some();
                Ok(if leader { Seen::Yes(()) } else { Seen::NotYet("nobody".to_owned()) })
            })
            .await?;
            result = Some(phases(load, world, &recorder).await?);
            Ok(())
        })
        .await?;
    result.context("nothing was measured")
}

async fn phases(load: Load, world: &World, recorder: &Recorder) -> anyhow::Result<Run> {
    quiet(recorder).await;
    let client = match world.sandbox() {
        Some(sandbox) => sandbox.http_client()?,
        None => world.client(),
    };
    let client = recorder.client(client);
    let arrivals = Arrivals::watch(world);
    let sent = recorder.count();
    load.begin(&client, world).await?;
    let (before, version) = (figures(world)?, load::version(world).await?);
    eprintln!("{} TrainJobs …", load.jobs);
    let first = Instant::now();
    let begun = load.create(&client, world).await?;
    until("all JobSets", PATIENCE, async || {
        tokio::time::sleep(LOOK_AGAIN).await;
        let (there, all) = (arrivals.count(), begun.len());
        Ok(if there == all { Seen::Yes(()) } else { Seen::NotYet(format!("{there} of {all}")) })
    })
    .await?;
    let (writes, coordinator) = (recorder.since(sent), figures(world)?.since(&before));
    let changes = load::version(world).await? - version;
    let (last, each) = arrivals.spread(&begun);
    ensure!(each.len() == begun.len(), "JobSets of {} TrainJobs", each.len());
    let took = last.context("no JobSet")?.duration_since(first);

    eprintln!("all becomes quiet …");
    quiet(recorder).await;
    eprintln!("every TrainJob is touched …");
    let (sent, before) = (recorder.count(), figures(world)?);
    load.touch(&world.client(), world.namespace()).await?;
    until("a look at every TrainJob", PATIENCE, async || {
        tokio::time::sleep(LOOK_AGAIN).await;
        let looks = figures(world)?.since(&before).get(COUNT);
        let done = looks >= f64::from(load.jobs);
        Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{looks} looks")) })
    })
    .await?;
    quiet(recorder).await;
    let looks = figures(world)?.since(&before).get(COUNT);
    let resync = recorder.since(sent);
    let namespace = world.namespace().to_owned();
    Ok(Run { took, each, writes, changes, namespace, looks, resync, coordinator })
}
