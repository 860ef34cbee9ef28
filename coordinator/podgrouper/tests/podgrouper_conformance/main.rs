//! Recorded groupings and admissions of KAI, replayed; the newest answer counts.
//!
//! The cases lie outside the repository: in the folder that `MUSTER_CONFORMANCE` names, or beside the project.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod admissions;
mod groupings;

use std::path::{Path, PathBuf};

use serde_json::Value;

#[path = "../behaviour/definitions.rs"]
mod definitions;

/// What came of one case.
pub struct Outcome {
    /// The case.
    pub name: String,
    /// Why it does not match.
    pub result: Result<(), String>,
}

/// Of a hundred recorded cases so many must match.
const BAR: usize = 98;

/// What is deliberately not as it was recorded, and why.
const DELIBERATE: [(&str, &str); 0] = [];

fn cases(folder: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let read = |file: &PathBuf| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    files.iter().map(read).collect()
}

/// The answer that counts.
pub fn expected(case: &Value) -> &Value {
    case.get("expectNewest").unwrap_or(&case["expect"])
}

/// Equal, or what differs first.
pub fn same(what: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: ours {ours}, recorded {theirs}"))
}

#[test]
fn podgrouper_conformance() {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("podgrouper");
    if !folder.is_dir() {
        println!("conformance podgrouper: skipped, there is no {}", folder.display());
        return;
    }
    let groupings: Vec<Outcome> =
        cases(&folder.join("cases")).iter().map(groupings::replay).collect();
    let admissions: Vec<Outcome> =
        cases(&folder.join("validation")).iter().map(admissions::replay).collect();
    let mut shown = 0;
    for Outcome { name, result } in groupings.iter().chain(&admissions) {
        let Err(miss) = result else { continue };
        match DELIBERATE.iter().find(|(case, _)| case == name) {
            Some((_, reason)) => println!("{name}: deliberate: {reason}"),
            None if shown < 20 => {
                shown += 1;
                println!("{name}: {miss}");
            }
            None => {}
        }
    }
    let passed =
        |outcomes: &[Outcome]| outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    let (grouped, admitted) = (passed(&groupings), passed(&admissions));
    println!("conformance podgrouper groupings: {grouped} of {}", groupings.len());
    println!("conformance podgrouper admissions: {admitted} of {}", admissions.len());
    let all = groupings.len() + admissions.len();
    println!("conformance podgrouper: {} of {all}", grouped + admitted);
    assert!(!groupings.is_empty() && !admissions.is_empty());
    assert!((grouped + admitted) * 100 >= all * BAR, "below {BAR} of a hundred");
}
