//! Measures the scheduler at work, against what the API server allows.
//!
//! ```text
//!   a  many pods of one device, all there: their group comes ──▶ the last has a node      against a plain loop of bindings
//!   b  a gang: its last pod comes ──▶ the last has a node
//!   c  a gang that cannot run comes ──▶ its reason is on it
//!   d  a starved queue asks for devices ──▶ as many pods as must go are told to
//! ```
//!
//! One process: the API server with its kubelets on one runtime, the coordinator on its own, the loop beside.

mod arrivals;
mod footprint;
mod load;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use muster_sandbox::hardware::Profile;

use crate::bench;
use crate::delivery::report::Report;
use crate::world::World;
use crate::world::coordinators::Choices;
use arrivals::Arrivals;
use load::Load;

/// What the scheduler must reach of the loop's rate.
const SHARE: f64 = 0.6;
/// What the others may take.
const LONGEST: Duration = Duration::from_secs(1);

/// MiB that the coordinator may need.
const MEMORY: f64 = 256.0;

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "placements", about = "How fast the scheduler places pods")]
pub struct Args {
    /// Nodes of eight devices
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(4..))]
    nodes: u32,
    /// Pods of the gang
    #[arg(long, default_value_t = 512)]
    gang: u32,
    /// Devices that a starved queue asks for
    #[arg(long, default_value_t = 256)]
    reclaim: u32,
    /// The coordinator's program, built for release: its memory is measured too
    #[arg(long)]
    program: Option<std::path::PathBuf>,
    /// Nodes of the cluster in which its memory is measured; eight pods on each
    #[arg(long, default_value_t = 5000)]
    large: u32,
}

/// What was seen.
struct Run {
    looped: Duration,
    bound: Duration,
    gang: Duration,
    reason: Duration,
    evictions: Duration,
}

/// Measures and prints; fails when a limit is missed by more than noise.
pub fn main(args: Args) -> ExitCode {
    bench::run("placements", async |_| measure(args).await)
}

async fn measure(args: Args) -> anyhow::Result<bool> {
    let pods = args.nodes * 8;
    println!("{} nodes of 8 devices, one coordinator, all in one process", args.nodes);
    let run = measured(&args, pods).await?;
    let mut report = Report::default();
    let rate = |took: Duration| f64::from(pods) / took.as_secs_f64();
    report.part(&format!("{pods} pods of one device, submitted at once"));
    report.time("a plain loop binds as many pods", run.looped);
    report.plain("bindings of the loop in a second", format!("{:.0}", rate(run.looped)));
    report.time("the scheduler binds all", run.bound);
    report.plain("bindings of the scheduler in a second", format!("{:.0}", rate(run.bound)));
    let ratio = run.bound.as_secs_f64() / run.looped.as_secs_f64();
    report.limit("a. the scheduler's time, against the loop's", ratio, 1.0 / SHARE, "x");
    report.part("alone");
    let limit = LONGEST.as_secs_f64() * 1000.0;
    let mut time = |what: &str, took: Duration| {
        report.limit(what, took.as_secs_f64() * 1000.0, limit, "ms");
    };
    time(&format!("b. a gang of {}, after its last pod is there", args.gang), run.gang);
    time("c. a gang that cannot run, until its reason is on it", run.reason);
    time(
        &format!("d. {} devices for a starved queue, until pods are told to go", args.reclaim),
        run.evictions,
    );
    if let Some(program) = &args.program {
        eprintln!(
            "{} nodes and {} pods, and the coordinator's program …",
            args.large,
            args.large * 8
        );
        let memory = footprint::measure(program, args.large).await?;
        report.part(&format!("{} nodes, {} pods", args.large, args.large * 8));
        let footprint::Memory { leading, waiting } = memory;
        // Other work on the machine does not make it larger: no noise is allowed for.
        report.strict("e. the coordinator's memory (RSS)", leading.now, MEMORY, "MiB");
        report.strict("f. the most that it was (VmHWM)", leading.most, MEMORY, "MiB");
        report.plain("one that waits to lead", format!("{:.0} MiB", waiting.now));
        report.plain("the most that it was", format!("{:.0} MiB", waiting.most));
    }
    Ok(report.verdict())
}

async fn measured(args: &Args, pods: u32) -> anyhow::Result<Run> {
    let mut result = None;
    // As they are shipped: on shared cores a short lease would end for want of a turn.
    let choices = Choices { lease: Duration::from_secs(15), ..Choices::default() };
    World::new()
        .bare_nodes_of(Profile::Ascend910b8, args.nodes)
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            result = Some(phases(args, pods, world).await?);
            Ok(())
        })
        .await?;
    result.context("nothing was measured")
}

async fn phases(args: &Args, pods: u32, world: &World) -> anyhow::Result<Run> {
    let load = Load::new(world);
    world.queue("all", "", -1.0, -1.0).await?;
    world.queue("greedy", "all", 0.0, -1.0).await?;
    world.queue("starved", "all", f64::from(args.reclaim), -1.0).await?;
    let arrivals = Arrivals::watch(world.client(), world.namespace());

    eprintln!("{pods} pods, bound by a plain loop …");
    load.create("looped", pods, "", "by-hand").await?;
    let looped = load.bind_all("looped", pods, &load.nodes().await?).await?;
    load.clear("looped").await?;

    eprintln!("a gang of {} …", args.gang);
    let gang = {
        load.group("gang", "greedy", args.gang).await?;
        load.create("gang", args.gang, "gang", load::OURS).await?;
        let created = Instant::now();
        arrivals.bound("gang-", args.gang as usize, created).await?
    };
    load.clear("gang").await?;

    eprintln!("{pods} pods, placed by the scheduler …");
    load.create("many", pods, "many", load::OURS).await?;
    let begun = Instant::now();
    load.group("many", "greedy", 1).await?;
    let bound = arrivals.bound("many-", pods as usize, begun).await?;

    eprintln!("a gang that cannot run …");
    let reason = load.impossible(args.nodes).await?;

    eprintln!("a starved queue …");
    load.group("due", "starved", args.reclaim).await?;
    load.create("due", args.reclaim, "due", load::OURS).await?;
    let begun = Instant::now();
    let evictions = arrivals.leaving("many-", args.reclaim as usize, begun).await?;
    Ok(Run { looped, bound, gang, reason, evictions })
}
