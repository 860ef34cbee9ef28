//! Recorded behaviour of the DI orchestrator, its server and its webhooks, replayed.
//!
//! The cases lie outside the repository: in the folder that `MUSTER_CONFORMANCE` names, or beside the project.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases and its environment"
)]

mod cluster;
mod matching;
mod operator;
mod server;
mod webhook;

use std::path::PathBuf;

use muster_dijob::gpu;
use serde_json::{Value, json};

fn gpualloc(case: &Value) -> Result<(), String> {
    let nodes: Vec<u64> = serde_json::from_value(case["given"]["nodeGPUs"].clone()).unwrap();
    let gpus = case["event"]["gpus"].as_u64().unwrap();
    let majority = gpu::majority(&nodes);
    let found = json!({"allocation": gpu::shares(gpus, majority), "majority": majority});
    let mut expected = case["expect"].clone();
    if expected["allocation"].is_null() {
        expected["allocation"] = json!([]);
    }
    if found == expected { Ok(()) } else { Err(format!("{found} instead of {expected}")) }
}

#[test]
fn dijob_conformance() {
    let folder = std::env::var_os("MUSTER_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let folder = folder.join("dijob/cases");
    if !folder.is_dir() {
        println!("conformance dijob: skipped, there is no {}", folder.display());
        return;
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut passed, mut missed) = (0, 0);
    for file in &files {
        let case: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let result = match case["component"].as_str().unwrap() {
            "gpualloc" => gpualloc(&case),
            "webhook" => webhook::run(&case),
            "operator" => operator::run(&case),
            "server" => server::run(&case),
            other => Err(format!("nobody knows the component {other}")),
        };
        match result {
            Ok(()) => passed += 1,
            Err(miss) => {
                missed += 1;
                if missed <= 10 {
                    println!("{}: {miss}", case["name"]);
                }
            }
        }
    }
    println!("conformance dijob: {passed} of {}", files.len());
    assert!(passed > 0 && missed == 0, "{missed} recorded cases do not pass");
}
