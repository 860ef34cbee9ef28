//! One cycle on a file of objects: what it takes, and how many decisions come of it. `hack/bench/kai` compares that with KAI.
//!
//! ```sh
//! cargo run --release -p muster-scheduler --example cycle -- CLUSTER.json [REPEAT]
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "the edge: a program that reads a file and looks at the clock"
)]

use std::error::Error;

use muster_scheduler::config::Config;
use muster_scheduler::decide;
use muster_scheduler::decisions::Action;
use muster_scheduler::input::{Limits, load};
use muster_scheduler::snapshot::build;
use nix::time::ClockId;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: cycle CLUSTER.json [REPEAT]")?;
    let repeat: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;

    let begun = processor_time()?;
    let bytes = std::fs::read(path)?;
    let document = load(&bytes, Limits::default())?;
    drop(bytes);
    let loaded = processor_time()? - begun;
    let config = Config::of_document(&document, &[])?;
    let now = document.input.now.ok_or("the file does not say `now`")?;

    let mut took = f64::INFINITY;
    let mut decisions = Default::default();
    for _ in 0..repeat.max(1) {
        let begun = processor_time()?;
        decisions = decide(&build(&document.input, &config.params, now), &config, now);
        took = took.min(processor_time()? - begun);
    }
    let count =
        |action| decisions.decisions.iter().filter(|decision| decision.action == action).count();
    let result = serde_json::json!({
        "cpuSeconds": took,
        "loadSeconds": loaded,
        "peakMiB": peak_mib()?,
        "bind": count(Action::Bind),
        "evict": count(Action::Evict),
        "pipeline": count(Action::Pipeline),
    });
    println!("{result}");
    Ok(())
}

/// What this process has used of the processors: on a busy machine it says more than the wall clock does.
fn processor_time() -> Result<f64, Box<dyn Error>> {
    let time = ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9)
}

fn peak_mib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib / 1024.0)
}
