//! Recorded behaviour of Kthena's ModelServing controller, its webhook and its names, replayed.
//!
//! The cases lie outside the repository: in the folder that `MUSTER_CONFORMANCE` names, or beside the project.
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

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What came of one case.
pub struct Outcome {
    /// The case.
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
pub fn cases(folder: &Path, component: &str) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| -> Value {
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    };
    files.iter().map(read).filter(|case| case["component"] == component).collect()
}

#[test]
fn modelserving_conformance() {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("modelserving/cases");
    if !folder.is_dir() {
        println!("conformance modelserving: skipped, there is no {}", folder.display());
        return;
    }
    let mut outcomes = controller::run(&folder);
    outcomes.extend(naming::run(&folder));
    outcomes.extend(webhook::run(&folder));
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
    assert!(!outcomes.is_empty() && missed == 0, "{missed} recorded cases do not pass");
}
