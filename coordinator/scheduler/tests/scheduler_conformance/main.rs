//! Recorded decisions of KAI Scheduler, replayed.
//!
//! The cases lie outside the repository: in the folder that `MUSTER_CONFORMANCE` names, or beside the project.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod case;
mod engine;
mod report;

use std::path::PathBuf;

use muster_scheduler::plugin::proportion::division::reported;

use case::{Case, Decision, Output};
use engine::Outcome;
use report::{Report, Row};

/// Least part of a row that must pass, in percent.
const BAR_SCENARIOS: f64 = 0.0;
const BAR_DECISIONS: f64 = 0.0;
const BAR_SHARES: f64 = 100.0;

#[test]
fn scheduler_conformance() {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("scheduler");
    if !folder.is_dir() {
        println!("conformance scheduler: skipped, there is no {}", folder.display());
        return;
    }
    let mut report = Report::default();
    for area in case::areas(&folder.join("scenarios")) {
        let mut placing = Row::new(&area, BAR_SCENARIOS);
        let mut waiting = Row::new(&format!("{area}, must not schedule"), BAR_SCENARIOS);
        for case in case::cases(&folder.join("scenarios").join(&area)) {
            let outcome = engine::run(&case.document);
            let expect = case.recorded.expect.as_ref().unwrap();
            let decides = |status: &str| ["Binding", "Pipelined", "Releasing"].contains(&status);
            let decides = expect.pods.values().any(|pod| decides(&pod.status));
            let row = if decides { &mut placing } else { &mut waiting };
            row.add(&case.name, statuses(&case, &outcome));
        }
        report.rows.extend([placing, waiting]);
    }
    let mut random = Row::new("random", BAR_DECISIONS);
    let mut newest = Row::new("newest", BAR_DECISIONS);
    let mut shares = Row::new("fair share", BAR_SHARES);
    for case in case::cases(&folder.join("random")) {
        let outcome = engine::run(&case.document);
        let wanted = case.recorded.output_newest.as_ref().unwrap();
        if case.recorded.target != "none" {
            report.nodes(&wanted.decisions, &outcome.decisions);
            random.add(&case.name, decisions(wanted, &outcome));
        }
        shares.add(&case.name, fair_shares(wanted, &outcome));
    }
    for case in case::cases(&folder.join("newest")) {
        let outcome = engine::run(&case.document);
        let wanted = case.recorded.output.as_ref().unwrap();
        if !case.name.starts_with("fs-") {
            report.nodes(&wanted.decisions, &outcome.decisions);
            newest.add(&case.name, decisions(wanted, &outcome));
        }
        shares.add(&case.name, fair_shares(wanted, &outcome));
    }
    report.rows.extend([random, newest, shares]);
    report.print();
    let below = report.below_bar();
    assert!(report.total() > 0 && below.is_empty(), "below their bars: {below:?}");
}

/// Status of every pod, and its node where that is asserted.
fn statuses(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let expect = case.recorded.expect.as_ref().unwrap();
    let mut misses = Vec::new();
    for (name, wanted) in &expect.pods {
        let none = (String::new(), String::new());
        let (status, node) = outcome.pods.get(name).unwrap_or(&none);
        if *status != wanted.status {
            misses
                .push(format!("  {name}: {status} {node}, not {} {}", wanted.status, wanted.node));
        } else if wanted.node_asserted && *node != wanted.node {
            misses.push(format!("  {name}: {status} on {node}, not on {}", wanted.node));
        }
    }
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}

/// The same actions on the same pods.
fn decisions(wanted: &Output, outcome: &Outcome) -> Result<(), String> {
    let (wanted, ours) = (keys(&wanted.decisions), keys(&outcome.decisions));
    let missing = wanted.iter().filter(|(key, _)| !ours.iter().any(|(ours, _)| ours == key));
    let surplus = ours.iter().filter(|(key, _)| !wanted.iter().any(|(wanted, _)| wanted == key));
    let missing = missing.map(|((pod, action), node)| format!("  - {action} {pod} {node}"));
    let surplus = surplus.map(|((pod, action), node)| format!("  + {action} {pod} {node}"));
    let misses: Vec<String> = missing.chain(surplus).collect();
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}

fn keys(decisions: &[Decision]) -> Vec<((&str, &str), &str)> {
    let mut keys: Vec<_> = decisions
        .iter()
        .map(|decision| ((decision.pod.as_str(), decision.action.as_str()), decision.node.as_str()))
        .collect();
    keys.sort_unstable();
    keys.dedup_by(|a, b| a.0 == b.0);
    keys
}

/// The same share of everything for every queue.
fn fair_shares(wanted: &Output, outcome: &Outcome) -> Result<(), String> {
    let mut misses = Vec::new();
    for (queue, wanted) in &wanted.fair_share {
        let ours = outcome.fair_share.get(queue).copied().unwrap_or_default();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
        if !(near(reported(ours.gpu), wanted.gpu)
            && near(ours.cpu, wanted.cpu)
            && near(ours.memory, wanted.memory))
        {
            misses.push(format!("  {queue}: {ours:?}, not {wanted:?}"));
        }
    }
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}
