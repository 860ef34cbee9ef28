//! Webhook cases: the last object is defaulted, then validated.

use muster_dijob::admission;
use serde_json::{Value, json};

/// Runs a case.
pub fn run(case: &Value) -> Result<(), String> {
    let mut job = case["given"]["objects"].as_array().unwrap().last().unwrap().clone();
    let deleted = case["event"]["type"] == "Delete";
    if !deleted && let Some(policy) = admission::policy(&job) {
        job["spec"]["cleanPodPolicy"] = policy.into();
    }
    let refusal = if deleted { None } else { admission::refusal(&job) };
    let mut found =
        json!({"allowed": refusal.is_none(), "cleanPodPolicy": job["spec"]["cleanPodPolicy"]});
    if let Some(message) = refusal {
        found["message"] = message.into();
    }
    let expected = &case["expect"];
    if found == *expected { Ok(()) } else { Err(format!("{found} instead of {expected}")) }
}
