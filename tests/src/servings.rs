//! Measures how many ModelServings get their tables at once, and what that costs the API server.
//!
//! ```text
//!   create ──▶ coordinator: pods, services, revisions, records ──▶ nodes, scheduler, agents ──▶ delivered
//!   └─────────────────────────────── a ───────────────────────────────────────────────────────┘
//!                 └─ recorded ─▶ the same writes by a plain loop, to a server that nobody watches
//!   a against: the time of one such write × all changes of the store until then, whoever made them
//!   touch ──▶ coordinator: nothing
//! ```
//!
//! One process: API server and kubelets on one runtime, the coordinator on its own, all agents on a third.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::runtime::Handle;
use tokio::sync::watch;

pub mod arrivals;
pub mod load;
pub mod recorder;
pub mod replay;

use crate::bench;
use crate::delivery::cluster::Cluster;
use crate::delivery::report::Report;
use crate::delivery::scrape::Figures;
use crate::world::serving::condition_of;
use crate::world::{Seen, World, until};
use arrivals::Arrivals;
use load::Load;
use recorder::{Recorder, Write};

/// How long anything may take; it ends as soon as it is so.
const PATIENCE: Duration = Duration::from_secs(900);
/// Between two looks: they are work for the cores that are measured.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Whoever has not written for so long is done.
const QUIET: Duration = Duration::from_secs(3);

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "servings", about = "How fast many ModelServings get their tables")]
pub struct Args {
    /// ModelServings
    #[arg(long, default_value_t = 200)]
    servings: u32,
    /// Roles of each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    roles: u32,
    /// Pods of each role, with one device each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
}

/// What was seen.
struct Run {
    /// From the first create to the last table.
    took: Duration,
    /// The same per ModelServing, sorted.
    each: Vec<Duration>,
    /// All that was written until then, with the creates of the ModelServings.
    writes: Vec<Write>,
    /// Changes in the store meanwhile, whoever made them.
    changes: u64,
    /// What the coordinator wrote while containers started.
    start: Vec<Write>,
    /// How often it looked when nothing meant anything, and what it wrote.
    looks: f64,
    resync: Vec<Write>,
    coordinator: Figures,
}

/// Measures and prints; fails when a limit is missed by more than noise.
pub fn main(args: Args) -> ExitCode {
    bench::run("servings", async |agents| measure(args, agents).await)
}

async fn measure(args: Args, agents: &Handle) -> anyhow::Result<bool> {
    let Args { servings, roles, pods } = args;
    let load = Load { servings, roles, pods };
    println!(
        "{servings} ModelServings of {roles} roles of {pods} pods, {} nodes, one coordinator, all in one process",
        load.nodes()
    );
    let run = measured(load, agents).await?;
    let (done, refused): (Vec<Write>, Vec<Write>) =
        run.writes.iter().cloned().partition(Write::is_done);
    eprintln!("the same {} writes, by a plain loop …", done.len());
    let floor = replay::replay(&done).await?;

    let mut report = Report::default();
    report.part("from the first ModelServing to the last table");
    report.time("all tables are delivered", run.took);
    report.spread("each ModelServing, from its creation to its last table", &run.each);
    report.part("writes until then");
    counted(&report, &run.writes);
    report.plain(
        "all of these (the ModelServings are ours, the others the coordinator's)",
        run.writes.len(),
    );
    report.plain("of these, refused or without an answer", refused.len());
    refused.iter().take(5).for_each(|write| println!("    {write}"));
    report.plain("changes in the store, with those of scheduler, nodes and agents", run.changes);
    let looks = run.coordinator.get("muster_modelserving_plan_duration_seconds_count");
    let thought = run.coordinator.get("muster_modelserving_plan_duration_seconds_sum");
    report.plain("looks of the coordinator at a ModelServing", looks);
    report.time("time that it thought", Duration::from_secs_f64(thought.max(0.0)));
    report.part("the same writes, by a plain loop");
    report.time("all of them, one after the other", floor.took);
    let one = floor.took.div_f64(done.len().max(1) as f64);
    report.time("one of them", one);
    let whole = one.mul_f64(run.changes as f64);
    report.time("as many as there were changes in the store", whole);
    report.none("refused there", &floor.refused);
    // A table needs the writes of scheduler, nodes and agents as much as the coordinator's.
    let ratio = run.took.as_secs_f64() / whole.as_secs_f64();
    report.limit("all tables, against a loop of as many writes", ratio, 2.0, "x");
    let ratio = run.took.as_secs_f64() / floor.took.as_secs_f64();
    report.plain(
        "the same, against a loop of the coordinator's writes alone",
        format!("{ratio:.2} x"),
    );
    report.part("containers start, all ModelServings become available");
    counted(&report, &run.start);
    report.part("every ModelServing is touched, and nothing is to be done");
    report.plain("looks of the coordinator at a ModelServing", run.looks);
    let written: Vec<String> = run.resync.iter().map(Write::to_string).collect();
    report.none("writes of the coordinator, but for its lease", &written);
    Ok(report.verdict())
}

pub(crate) fn counted(report: &Report, writes: &[Write]) {
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for write in writes {
        *counts.entry((write.resource(), write.verb())).or_default() += 1;
    }
    for ((resource, verb), count) in counts {
        report.plain(&format!("{verb} {resource}"), count);
    }
}

async fn measured(load: Load, agents: &Handle) -> anyhow::Result<Run> {
    let (go, mut result) = (watch::Sender::new(false), None);
    load.plan(&go)
        .run(async |world| {
            let recorder = Recorder::default();
            world.add_coordinator_with(|client| recorder.client(client)).await?;
            world.coordinators_mut()?.end(0).await?;
            until("a leader", PATIENCE, async || {
                let leader = world.coordinators()?.leader().is_some();
                Ok(if leader { Seen::Yes(()) } else { Seen::NotYet("nobody".to_owned()) })
            })
            .await?;
            eprintln!("{} agents connect …", load.nodes());
            let cluster = Cluster::start(world, agents, load::DEVICES).await?;
            let run = phases(load, world, &recorder, &go).await;
            cluster.stop().await;
            result = Some(run?);
            Ok(())
        })
        .await?;
    result.context("nothing was measured")
}

async fn phases(
    load: Load,
    world: &World,
    recorder: &Recorder,
    go: &watch::Sender<bool>,
) -> anyhow::Result<Run> {
    quiet(recorder).await;
    let sandbox = world.sandbox().context("nodes without hardware files are the sandbox's")?;
    let client = recorder.client(sandbox.http_client()?);
    let arrivals = Arrivals::watch(world.client(), world.namespace());
    let (sent, before, version) = (recorder.count(), figures(world)?, version(load, world).await?);
    eprintln!("{} ModelServings …", load.servings);
    let first = Instant::now();
    let begun = load.create(&client, world.namespace()).await?;
    let mut told = Instant::now();
    until("all tables", PATIENCE, async || {
        tokio::time::sleep(LOOK_AGAIN).await;
        let (there, all) = (arrivals.delivered(), load.tables());
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let sent = recorder.count() - sent;
            eprintln!("  {:.0?}: {there} of {all} tables, {sent} writes", first.elapsed());
        }
        Ok(if there == all { Seen::Yes(()) } else { Seen::NotYet(format!("{there} of {all}")) })
    })
    .await?;
    let roles = load.roles as usize;
    let last = arrivals.whole(roles).into_values().max().context("no table")?;
    let (writes, coordinator) = (recorder.since(sent), figures(world)?.since(&before));
    let changes = self::version(load, world).await? - version;
    let each = arrivals.spread(&begun, roles);
    ensure!(each.len() == begun.len(), "tables of {} ModelServings", each.len());

    eprintln!("containers start …");
    let sent = recorder.count();
    go.send_replace(true);
    until("all ModelServings available", PATIENCE, async || {
        tokio::time::sleep(LOOK_AGAIN * 5).await;
        let list = load::servings(&world.client(), world.namespace());
        let list = list.list(&Default::default()).await?.items;
        let is = |serving: &kube::api::DynamicObject| {
            let value = serde_json::to_value(serving).unwrap_or_default();
            condition_of(&value, "Available").is_some_and(|(status, ..)| status == "True")
        };
        let there = list.iter().filter(|one| is(one)).count();
        let seen = format!("{there} of {}", load.servings);
        Ok(if there == begun.len() { Seen::Yes(()) } else { Seen::NotYet(seen) })
    })
    .await?;
    quiet(recorder).await;
    let start = recorder.since(sent);

    eprintln!("every ModelServing is touched …");
    let (sent, before) = (recorder.count(), figures(world)?);
    load.touch(&world.client(), world.namespace()).await?;
    let looked = |now: &Figures| now.get("muster_modelserving_plan_duration_seconds_count");
    until("a look at every ModelServing", PATIENCE, async || {
        tokio::time::sleep(LOOK_AGAIN).await;
        let looks = looked(&figures(world)?.since(&before));
        let done = looks >= f64::from(load.servings);
        Ok(if done { Seen::Yes(()) } else { Seen::NotYet(format!("{looks} looks")) })
    })
    .await?;
    quiet(recorder).await;
    let looks = looked(&figures(world)?.since(&before));
    let resync = recorder.since(sent);
    let took = last.duration_since(first);
    Ok(Run { took, each, writes, changes, start, looks, resync, coordinator })
}

/// Returns when nobody has written for a while.
pub(crate) async fn quiet(recorder: &Recorder) {
    let mut before = None;
    while before != Some(recorder.count()) {
        before = Some(recorder.count());
        tokio::time::sleep(QUIET).await;
    }
}

pub(crate) fn figures(world: &World) -> anyhow::Result<Figures> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    Ok(Figures::of(&leader.coordinator().status().registry))
}

/// The store counts its changes.
async fn version(load: Load, world: &World) -> anyhow::Result<u64> {
    let list = load::servings(&world.client(), world.namespace());
    let list = list.list(&kube::api::ListParams::default().limit(load.servings.min(1))).await?;
    let version = list.metadata.resource_version.context("no version")?;
    Ok(version.parse()?)
}
