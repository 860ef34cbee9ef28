//! Recorded behaviour of Kthena's ModelServing controller, its webhook and its names, replayed.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod cluster;
mod controller;
mod matching;
mod naming;
mod webhook;

use muster_conformance::{Recordings, Test};

use serde_json::Value;

/// What came of one case.
pub struct Outcome {
    /// Name of the case.
    pub name: String,
    /// Why it does not match.
    pub result: Result<(), String>,
}

/// What is deliberately not as it was recorded, and why.
const DELIBERATE: [(&str, &str); 4] = [
    (
        "create-replicas-zero",
        "a ModelServing that starts with no replicas has a status, and nothing fails",
    ),
    (
        "create-deletion-timestamp",
        "no pods are made for what is being deleted: a deletion that waits for them would never end",
    ),
    ("plugin-demo-env-accumulates", "each worker has a plugin's variables once"),
    ("naming-revision-dump", "a revision is opaque: nothing depends on how Go prints its structs"),
];

/// The cases of a component, by file name.
pub fn cases(recordings: &Recordings, component: &str) -> Vec<Value> {
    let cases: Vec<Value> = recordings.each("cases");
    cases.into_iter().filter(|case| case["component"] == component).collect()
}

fn main() -> std::process::ExitCode {
    let test = Test { name: "modelserving_conformance", needs: "cases", replay };
    muster_conformance::run("modelserving", &[test])
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let mut outcomes = controller::run(recordings);
    outcomes.extend(naming::run(recordings));
    outcomes.extend(webhook::run(recordings));
    let deliberate = |outcome: &Outcome| {
        DELIBERATE.iter().find(|(name, _)| *name == outcome.name).map(|(_, reason)| *reason)
    };
    let mut missed = 0;
    for outcome in &outcomes {
        let Err(miss) = &outcome.result else { continue };
        match deliberate(outcome) {
            Some(reason) => println!("{}: deliberate: {reason}", outcome.name),
            None => {
                missed += 1;
                if missed <= 10 {
                    println!("{}: {miss}", outcome.name);
                }
            }
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    println!("conformance modelserving: {passed} of {}", outcomes.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} recorded cases do not pass")) }
}
