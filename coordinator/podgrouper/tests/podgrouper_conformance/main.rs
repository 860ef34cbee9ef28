//! Recorded groupings and admissions of KAI, replayed; the newest answer counts.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod admissions;
mod groupings;

use muster_conformance::{Recordings, Test};

use serde_json::Value;

#[path = "../behaviour/definitions.rs"]
mod definitions;

/// What came of one case.
pub struct Outcome {
    /// Name of the case.
    pub name: String,
    /// Why it does not match.
    pub result: Result<(), String>,
}

/// Of a hundred recorded cases so many must match.
const BAR: usize = 98;

/// What is deliberately not as it was recorded, and why.
const DELIBERATE: [(&str, &str); 0] = [];

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

fn main() -> std::process::ExitCode {
    let test = Test { name: "podgrouper_conformance", needs: "cases", replay };
    muster_conformance::run("podgrouper", &[test])
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let groupings: Vec<Outcome> = recordings.each("cases").iter().map(groupings::replay).collect();
    let admissions: Vec<Outcome> =
        recordings.each("validation").iter().map(admissions::replay).collect();
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
    let enough = !admissions.is_empty() && (grouped + admitted) * 100 >= all * BAR;
    if enough { Ok(()) } else { Err(format!("below {BAR} of a hundred, or no admissions")) }
}
