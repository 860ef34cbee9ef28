//! Recorded decisions of KAI Scheduler, replayed.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod case;
mod engine;
#[expect(dead_code, reason = "random clusters are tried elsewhere")]
#[path = "../invariants.rs"]
mod invariants;
mod report;

use std::collections::{BTreeMap, BTreeSet};

use muster_conformance::{Recordings, Test};
use muster_scheduler::{
    decisions::{Decisions, PodOutcome},
    plugin::proportion::division::reported,
};

use case::{Case, Output};
use report::{Report, Row};

/// Least part of a row that must pass, in percent; what is deliberately different does not count.
const BAR: f64 = 100.0;

/// What is deliberately not as it was recorded, and why.
const DELIBERATE: [(&str, &str); 1] = [(
    "r1009",
    "a group that was moved in a cycle is not evicted once more in the same cycle: another one gives way",
)];

fn main() -> std::process::ExitCode {
    let tests = [
        Test { name: "scheduler_conformance", needs: "random", replay },
        Test {
            name: "scheduler_newest",
            needs: "newest",
            replay: |recordings| counted(recordings, "newest"),
        },
        // They are tables of KAI's own tests, so that the repository has none of them.
        Test {
            name: "scheduler_scenarios",
            needs: "scenarios",
            replay: |recordings| {
                let areas = recordings.folders("scenarios");
                areas.iter().try_for_each(|area| counted(recordings, &format!("scenarios/{area}")))
            },
        },
    ];
    muster_conformance::run("scheduler", &tests)
}

/// `replay` counts the cases of all folders together. This fails where a folder has none that it could count.
fn counted(recordings: &Recordings, folder: &str) -> Result<(), String> {
    match recordings.files(folder).count() {
        0 => Err(format!("{folder} has no cases")),
        _ if !recordings.has("random") => Err("without random/ nothing is replayed".to_owned()),
        _ => Ok(()),
    }
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let mut report = Report::default();
    let mut lawful = Row::new("invariants of recorded cases", BAR);
    let mut run = |case: &Case| {
        let outcome = engine::run(&case.document);
        let cycle = invariants::Cycle::of(&outcome.0, &outcome.1);
        let wrong = invariants::violations(&case.document.input, &cycle);
        lawful.add(
            &case.name,
            if wrong.is_empty() { Ok(()) } else { Err(format!("  {}", wrong.join("\n  "))) },
        );
        outcome
    };
    for area in recordings.folders("scenarios") {
        let mut placing = Row::new(&area, BAR);
        let mut waiting = Row::new(&format!("{area}, must not schedule"), BAR);
        for case in case::cases(recordings, &format!("scenarios/{area}")) {
            let (_, pods) = run(&case);
            let expect = case.recorded.expect.as_ref().unwrap();
            let decides = |status: &str| ["Binding", "Pipelined", "Releasing"].contains(&status);
            let decides = expect.pods.values().any(|pod| decides(&pod.status));
            let row = if decides { &mut placing } else { &mut waiting };
            row.add(&case.name, statuses(&case, &pods));
        }
        report.rows.extend([placing, waiting]);
    }
    let mut random = Row::new("random", BAR);
    let mut newest = Row::new("newest", BAR);
    let mut shares = Row::new("fair share", BAR);
    for case in case::cases(recordings, "random") {
        let (outcome, _) = run(&case);
        let wanted = case.recorded.output_newest.as_ref().unwrap();
        if case.recorded.target != "none" {
            report.nodes(&wanted.decisions, &outcome);
            random.add(&case.name, decisions(wanted, &outcome));
        }
        shares.add(&case.name, fair_shares(wanted, &outcome));
    }
    for case in case::cases(recordings, "newest") {
        let (outcome, _) = run(&case);
        let wanted = case.recorded.output.as_ref().unwrap();
        if !case.name.starts_with("fs-") {
            report.nodes(&wanted.decisions, &outcome);
            newest.add(&case.name, decisions(wanted, &outcome));
        }
        shares.add(&case.name, fair_shares(wanted, &outcome));
    }
    report.rows.extend([random, newest, shares, lawful]);
    report.print();
    let below = report.below_bar();
    if below.is_empty() { Ok(()) } else { Err(format!("below their bars: {below:?}")) }
}

/// Status of every pod, and its node where that is asserted.
fn statuses(case: &Case, pods: &BTreeMap<String, PodOutcome>) -> Result<(), String> {
    let expect = case.recorded.expect.as_ref().unwrap();
    let mut misses = Vec::new();
    for (name, wanted) in &expect.pods {
        let (status, node) = match pods.get(name) {
            Some(pod) => (pod.status, pod.node.as_str()),
            None => ("absent", ""),
        };
        if status != wanted.status {
            misses
                .push(format!("  {name}: {status} {node}, not {} {}", wanted.status, wanted.node));
        } else if wanted.node_asserted && node != wanted.node {
            misses.push(format!("  {name}: {status} on {node}, not on {}", wanted.node));
        }
    }
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}

/// The same actions on the same pods.
fn decisions(wanted: &Output, outcome: &Decisions) -> Result<(), String> {
    let ours = outcome.decisions.iter().map(|decision| {
        let action = serde_json::to_value(decision.action).unwrap();
        (decision.pod.clone(), action.as_str().unwrap().to_owned())
    });
    let ours: BTreeSet<(String, String)> = ours.collect();
    let wanted =
        wanted.decisions.iter().map(|decision| (decision.pod.clone(), decision.action.clone()));
    let wanted: BTreeSet<(String, String)> = wanted.collect();
    let missing = wanted.difference(&ours).map(|(pod, action)| format!("  - {action} {pod}"));
    let surplus = ours.difference(&wanted).map(|(pod, action)| format!("  + {action} {pod}"));
    let misses: Vec<String> = missing.chain(surplus).collect();
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}

/// The same share of everything for every queue.
fn fair_shares(wanted: &Output, outcome: &Decisions) -> Result<(), String> {
    let mut misses = Vec::new();
    for (queue, wanted) in &wanted.fair_share {
        let Some(ours) = outcome.fair_share.get(queue).cloned() else {
            misses.push(format!("  {queue}: absent, not {wanted:?}"));
            continue;
        };
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
