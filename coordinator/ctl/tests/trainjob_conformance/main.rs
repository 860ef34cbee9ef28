//! Recorded behaviour of Kubeflow Trainer's controller and webhooks, replayed by `trainjob render`.
//!
//! The cases lie outside the repository: in the folder that `MUSTER_CONFORMANCE` names, or beside the project.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reads its cases")]

mod facts;
mod matching;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What is deliberately not as it was recorded, and why: docs/adr/0011-trainjob-parity.md.
const DELIBERATE: [(&str, &str); 0] = [];

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("trainjob");
    if !folder.is_dir() {
        println!("conformance trainjob: skipped, there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

fn run(case: &Path) -> Result<(), String> {
    let input = std::fs::read_to_string(case.join("input.yaml")).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&input).unwrap();
    let documents = documents.into_iter().filter(|document| !document.is_null()).collect();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(case.join("expect.json")).unwrap()).unwrap();
    let got = musterctl::trainjob::document(documents, true).map_err(|error| error.to_string())?;
    matching::matches(&got, &expected)
}

#[test]
fn trainjob_conformance() {
    let Some(folder) = folder() else { return };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder.join("cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    let (mut passed, mut missed) = (0, 0);
    for case in &cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let reason = DELIBERATE.iter().find(|(deliberate, _)| name.starts_with(deliberate));
        match (run(case), reason) {
            (Ok(()), None) => passed += 1,
            (Ok(()), Some(_)) => panic!("{name} passes: take it off the list"),
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
    assert!(!cases.is_empty() && missed == 0, "{missed} recorded cases do not pass");
}

#[test]
fn definitions_have_the_recorded_facts() {
    let Some(folder) = folder() else { return };
    let facts: Value =
        serde_json::from_slice(&std::fs::read(folder.join("crd-facts.json")).unwrap()).unwrap();
    let misses = facts::misses(&facts);
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}
