//! What the objects' conditions say. Types and reasons are those of KAI's operator, for whoever waits for them; Muster adds
//! two reasons for what the operator never says.

use serde_json::{Value, json};

use super::{InForce, SHARD_FLAG, Written};

/// Why a condition is what it is.
pub mod reason {
    /// The object was looked at.
    pub const RECONCILED: &str = "reconciled";
    /// What it says is in force.
    pub const DEPLOYED: &str = "deployed";
    /// Pods are placed, or would be if nobody had switched it off.
    pub const AVAILABLE: &str = "available";
    /// What it needs is there.
    pub const FULFILLED: &str = "dependencies_fulfilled";
    /// Prometheus does not answer.
    pub const UNREACHABLE: &str = "prometheus_connection_failed";
    /// It cannot be used.
    pub const INVALID: &str = "invalid_spec";
    /// Another shard is served.
    pub const NOT_SERVED: &str = "not_served";
}

/// A condition, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
    /// Of which generation.
    pub generation: i64,
}

/// The longest message; the API server takes 32 KiB.
const LONGEST: usize = 1024;

/// The four conditions of an object that is fine.
fn fine(generation: i64, deployed: String, available: String) -> Vec<Condition> {
    let of = |kind, reason, message: String| {
        let message = message.chars().take(LONGEST).collect();
        Condition { kind, status: true, reason, message, generation }
    };
    vec![
        of("Reconciling", reason::RECONCILED, "The spec was read".to_owned()),
        of("Deployed", reason::DEPLOYED, deployed),
        of("Available", reason::AVAILABLE, available),
        of("DependenciesFulfilled", reason::FULFILLED, "Dependencies are fulfilled".to_owned()),
    ]
}

/// Whether pods are placed.
fn availability(in_force: &InForce) -> String {
    match in_force.switches.paused {
        Some(field) => format!("No pod is placed: Config kai-config: {field} is false"),
        None => "Pods are placed".to_owned(),
    }
}

/// Of the shard that is served.
pub(super) fn of_served(
    shard: &Written,
    in_force: &InForce,
    missing: Option<&str>,
) -> Vec<Condition> {
    let mut deployed = "In force".to_owned();
    let notes = in_force.config.notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    if !notes.is_empty() && in_force.problem.is_none() {
        deployed = format!("In force, but for: {}", notes.join("; "));
    }
    let mut all = fine(shard.generation, deployed, availability(in_force));
    if let (Some(problem), Some(deployed)) = (&in_force.problem, all.get_mut(1)) {
        deployed.status = false;
        deployed.reason = reason::INVALID;
        let message = format!(
            "SchedulingShard {}: {problem}. In force stays: {}",
            shard.name, in_force.source
        );
        deployed.message = message.chars().take(LONGEST).collect();
    }
    if let (Some(missing), Some(dependencies)) = (missing, all.last_mut()) {
        dependencies.status = false;
        dependencies.reason = reason::UNREACHABLE;
        dependencies.message = missing.chars().take(LONGEST).collect();
    }
    all
}

/// Of a shard that somebody else may serve.
pub(super) fn of_unserved(shard: &Written, served: &str) -> Vec<Condition> {
    let served = if served.is_empty() { "no shard".to_owned() } else { format!("shard {served}") };
    let message = format!(
        "Nobody places pods on nodes of this shard: the coordinator serves {served}; set {SHARD_FLAG} {}",
        shard.name
    );
    vec![Condition {
        kind: "Available",
        status: false,
        reason: reason::NOT_SERVED,
        message: message.chars().take(LONGEST).collect(),
        generation: shard.generation,
    }]
}

/// Of `kai-config`.
pub(super) fn of_config(kai: &Written, in_force: &InForce) -> Vec<Condition> {
    let mut deployed = "In force".to_owned();
    if !in_force.switches.grouping {
        deployed += "; pods get no groups: spec.podGrouper.service.enabled is false";
    }
    if !in_force.switches.admission {
        deployed += "; pods are neither changed nor refused when they are created, and those that share a device are not placed: \
                     spec.admission.service.enabled is false";
    }
    let mut all = fine(kai.generation, deployed, availability(in_force));
    if let (Some(ignored), Some(deployed)) = (&in_force.ignored, all.get_mut(1)) {
        deployed.status = false;
        deployed.reason = reason::INVALID;
        let message = format!("Config {}: {ignored}. The rest is in force", kai.name);
        deployed.message = message.chars().take(LONGEST).collect();
    }
    all
}

/// The conditions of an object with ours among them; none if nothing changes. A condition that somebody else has written about a
/// shard that we do not serve stays theirs.
pub fn merge(written: &Value, ours: &[Condition], now: &str) -> Option<Vec<Value>> {
    let before = written.as_array().cloned().unwrap_or_default();
    let mut all = before.clone();
    for one in ours {
        let known = all.iter_mut().find(|known| known["type"] == one.kind);
        let status = if one.status { "True" } else { "False" };
        let mut new = json!({"type": one.kind, "status": status, "reason": one.reason,
            "message": one.message, "observedGeneration": one.generation, "lastTransitionTime": now});
        match known {
            Some(known) if one.reason == reason::NOT_SERVED && known["reason"] != one.reason => {}
            Some(known) => {
                if known["status"] == status && known["lastTransitionTime"].is_string() {
                    new["lastTransitionTime"] = known["lastTransitionTime"].clone();
                }
                *known = new;
            }
            None => all.push(new),
        }
    }
    (all != before).then_some(all)
}
