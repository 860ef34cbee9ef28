//! Measures how a table travels: from the last device report to the last of many files.
//!
//! ```text
//!   report ──▶ hub ──▶ coordinator: wait, make, record, hand out ──▶ streams ──▶ agents ──▶ files ◀── readers
//!              └──────────────── a ────────────────────────────────┘          └──── b ────┘
//!              └──────────────────────────────────── c, d ────────────────────────────────┘  against a plain loop
//! ```
//!
//! One process: API server and kubelets on one runtime, the coordinator on its own, all agents on a third. Parts of the
//! times are the programs' own metrics; a file's moment is its last change, which is its rename.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

pub mod alone;
pub mod cluster;
pub mod floor;
pub mod readers;
pub(crate) mod report;
pub mod scrape;
pub mod volumes;

use crate::bench;
use cluster::{Arrived, Cluster};
use floor::Floor;
use readers::Readers;
use report::{Report, at, millis};

/// The agents' own time from an order to a table that can be read.
const READABLE: &str = "muster_agent_readable_duration_seconds";

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "delivery", about = "How fast a table reaches every node")]
pub struct Args {
    /// Nodes, with one pod of the group each
    #[arg(long, default_value_t = 1250)]
    nodes: u32,
    /// Devices of each
    #[arg(long, default_value_t = 8)]
    devices: u32,
    /// Tables for an agent that has nothing else to do
    #[arg(long, default_value_t = 200)]
    alone: usize,
    /// Pods that read a ConfigMap volume
    #[arg(long, default_value_t = 100)]
    volumes: u32,
    /// One reader per so many files
    #[arg(long, default_value_t = 60)]
    files_per_reader: usize,
}

/// What the large run has shown.
struct Large {
    first: Arrived,
    second: Arrived,
    floor: Floor,
    seen: readers::ReadTable,
}

/// Measures and prints; fails when a limit is missed by more than noise.
pub fn main(args: Args) -> ExitCode {
    bench::run("delivery", async |agents| measure(args, agents).await)
}

async fn measure(args: Args, agents: &tokio::runtime::Handle) -> anyhow::Result<bool> {
    let Args { nodes, devices, .. } = args;
    println!("{nodes} nodes, {} ranks, one coordinator, all in one process", nodes * devices);
    let mut report = Report::default();
    let large = large(&args, agents).await?;
    let Large { first, second, floor, seen } = &large;
    bytes(&report, first, nodes);
    generation(&mut report, "the first table", first, floor.new, floor.synced);
    generation(&mut report, "a pod is replaced", second, floor.over, floor.synced);

    report.part("readers, all the while");
    report.plain("files", (nodes as usize).div_ceil(args.files_per_reader));
    report.plain("looks", seen.looks);
    report.plain("of them, with another file than before: read and checked", seen.reads);
    let mut faults = seen.faults.clone();
    let known = [&first.table, &second.table];
    let strange = seen.contents.iter().filter(|one| !known.iter().any(|table| ***table == ***one));
    faults.extend(strange.map(|one| format!("a table of {} bytes that nobody made", one.len())));
    report.none("faults", &faults);

    eprintln!("one agent alone, {} tables …", args.alone);
    quiet().await;
    let alone = alone::measure(&second.table, args.alone, agents).await?;
    report.part("one agent that has nothing else to do");
    report.plain("tables", alone.seen.len());
    report.spread("from the hub's queue to a file that can be read (wire and agent)", &alone.seen);
    let p99 = millis(at(&alone.seen, 0.99));
    report.limit("b. the same, p99", p99, 10.0, "ms");
    report.plain("the agent's own figure, p99 within", format!("{} ms", alone.within * 1e3));

    eprintln!("ConfigMap volumes …");
    let ranks = 1000;
    let text = crate::footprint::table::of(ranks);
    let volumes = volumes::measure(&text, args.volumes).await?;
    report.part("the same way through ConfigMap volumes, kubelets with their default sync of 60 s");
    report.plain("pods", args.volumes);
    report.plain("ranks (beyond some 7,000 a ConfigMap cannot hold the table)", ranks);
    report.spread("left alone, simulated clock", &volumes.alone);
    report.plain("a real kubelet 1.34, measured", "median 41 s, worst 81 s");
    report.spread("with a patch of each pod, real time", &volumes.patched);
    Ok(report.verdict())
}

async fn large(args: &Args, agents: &tokio::runtime::Handle) -> anyhow::Result<Large> {
    let ranks = (args.nodes * args.devices) as usize;
    let mut result = None;
    cluster::plan(args.nodes)
        .run(async |world| {
            eprintln!("agents connect …");
            let mut cluster = Cluster::start(world, agents, args.devices).await?;
            eprintln!("pods are made, all but one …");
            cluster.fill().await?;
            let watched = cluster.files().await?;
            let readers = watched.into_iter().step_by(args.files_per_reader.max(1)).collect();
            let readers = Readers::start(readers, ranks);
            let measured = async {
                quiet().await;
                eprintln!("the last pod, the first table …");
                let first = cluster.complete().await?;
                quiet().await;
                eprintln!("a pod is replaced, the second table …");
                let second = cluster.replace().await?;
                quiet().await;
                eprintln!("a plain loop …");
                let (files, table) = (cluster.files().await?, second.table.clone());
                let floor = tokio::task::spawn_blocking(move || floor::measure(&files, &table));
                anyhow::Ok((first, second, floor.await??))
            };
            let measured = measured.await;
            let seen = tokio::task::spawn_blocking(move || readers.end()).await?;
            cluster.stop().await;
            let (first, second, floor) = measured?;
            result = Some(Large { first, second, floor, seen });
            Ok(())
        })
        .await?;
    result.context("nothing was measured")
}

/// What was written before is on the disk, and what it set off is over: ext4 passes over inodes that were freed in the
/// last five seconds, one by one.
async fn quiet() {
    let _done = tokio::task::spawn_blocking(floor::settle).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
}

fn bytes(report: &Report, first: &Arrived, nodes: u32) {
    let figures = &first.coordinator;
    let sent = figures.get("muster_hub_table_bytes_total");
    report.part("bytes");
    report.plain("the table", first.table.len());
    report.plain("packed, sent to each node", format!("{:.0}", sent / f64::from(nodes)));
    report.plain("sent in all", format!("{sent:.0}"));
    report.plain("times that it was packed", figures.get("muster_hub_packed_tables_total"));
}

fn generation(
    report: &mut Report,
    title: &str,
    arrived: &Arrived,
    floor: Duration,
    synced: Duration,
) {
    let Arrived { coordinator, agents, files, .. } = arrived;
    report.part(title);
    let sum = |name: &str| Duration::from_secs_f64(coordinator.get(name).max(0.0));
    for (part, what) in [
        ("wait", "coordinator: last report at the hub until making begins"),
        ("make", "coordinator: assembled, rendered, packed"),
        ("record", "coordinator: the ConfigMap written"),
        ("hand-out", "coordinator: into the queues of all streams"),
    ] {
        let name = format!("muster_ranktable_part_duration_seconds_sum{{part=\"{part}\"}}");
        report.time(what, sum(&name));
    }
    let whole = millis(sum("muster_ranktable_handout_duration_seconds_sum"));
    report.limit("a. the coordinator's share", whole, 300.0, "ms");
    let within = [0.5, 0.99, 1.0].map(|share| agents.within(READABLE, share) * 1e3);
    report.plain(
        "agents, all at once on these cores: order to file, within",
        format!("p50 {}  p99 {}  max {} ms", within[0], within[1], within[2]),
    );
    report.spread("complete to a file that can be read", files);
    report.time(
        "complete to the last agent's word",
        sum("muster_ranktable_delivery_duration_seconds_sum"),
    );
    report.time("the plain loop: temporary file, write, rename", floor);
    report.time("the plain loop with a sync of each file", synced);
    let last = at(files, 1.0).as_secs_f64();
    report.plain(
        "to the last file, against the loop that syncs",
        format!("{:.2} x", last / synced.as_secs_f64()),
    );
    report.limit(
        "c. to the last file, against the plain loop",
        last / floor.as_secs_f64(),
        2.0,
        "x",
    );
}
