//! Recorded behaviour of the DI orchestrator, its server and its webhooks, replayed.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
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

use muster_conformance::{Recordings, Test};
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

fn main() -> std::process::ExitCode {
    let test = Test { name: "dijob_conformance", needs: "cases", replay };
    muster_conformance::run("dijob", &[test])
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let cases: Vec<Value> = recordings.each("cases");
    let (mut passed, mut missed) = (0, 0);
    for case in &cases {
        let result = match case["component"].as_str().unwrap() {
            "gpualloc" => gpualloc(case),
            "webhook" => webhook::run(case),
            "operator" => operator::run(case),
            "server" => server::run(case),
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
    println!("conformance dijob: {passed} of {}", cases.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} recorded cases do not pass")) }
}
