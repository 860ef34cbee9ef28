//! Recorded behaviour of ModelServing: every case, replayed.
//!
//! The recordings are not part of this tree: `MUSTER_CONFORMANCE` names their folder. Without it nothing is replayed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test reads its recordings"
)]

mod webhook;

use std::path::PathBuf;

/// How a case ended.
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What differs, if something does.
    pub result: Result<(), String>,
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("modelserving");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("conformance modelserving: skipped, there is no {}", folder.display());
    None
}

fn report(what: &str, outcomes: &[Outcome]) {
    for Outcome { name, result } in outcomes {
        if let Err(why) = result {
            println!("{name}: {why}");
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    println!("conformance modelserving {what}: {passed} of {}", outcomes.len());
    assert!(!outcomes.is_empty() && passed == outcomes.len(), "not all recorded cases pass");
}

#[test]
fn webhook_cases() {
    if let Some(folder) = folder() {
        report("webhook", &webhook::run(&folder));
    }
}
