//! Recorded behaviour of Kubeflow Trainer's controller and webhooks, replayed by `trainjob render`.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reads its cases")]

mod facts;
mod matching;

use muster_conformance::{Recordings, Test};
use serde_json::Value;

/// What is deliberately not as it was recorded, and why: docs/adr/0011-trainjob-parity.md.
const DELIBERATE: [(&str, &str); 0] = [];

fn main() -> std::process::ExitCode {
    let tests = [
        Test { name: "trainjob_conformance", needs: "cases", replay },
        Test {
            name: "definitions_have_the_recorded_facts",
            needs: "crd-facts.json",
            replay: definitions,
        },
    ];
    muster_conformance::run("trainjob", &tests)
}

fn run(recordings: &Recordings, case: &str) -> Result<(), String> {
    let input = str::from_utf8(recordings.bytes(&format!("cases/{case}/input.yaml"))).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(input).unwrap();
    let documents = documents.into_iter().filter(|document| !document.is_null()).collect();
    let expected: Value = recordings.json(&format!("cases/{case}/expect.json"));
    let got = musterctl::trainjob::document(documents, true).map_err(|error| error.to_string())?;
    matching::matches(&got, &expected)
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let cases = recordings.folders("cases");
    let (mut passed, mut missed) = (0, 0);
    for name in &cases {
        let reason = DELIBERATE.iter().find(|(deliberate, _)| name.starts_with(deliberate));
        match (run(recordings, name), reason) {
            (Ok(()), None) => passed += 1,
            (Ok(()), Some(_)) => return Err(format!("{name} passes: take it off the list")),
            (Err(_), Some((_, reason))) => println!("{name}: deliberate: {reason}"),
            (Err(miss), None) => {
                missed += 1;
                if missed <= 20 {
                    println!("{name}: {miss}");
                }
            }
        }
    }
    println!("conformance trainjob: {passed} of {}", cases.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} recorded cases do not pass")) }
}

fn definitions(recordings: &Recordings) -> Result<(), String> {
    let misses = facts::misses(&recordings.json("crd-facts.json"));
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}
