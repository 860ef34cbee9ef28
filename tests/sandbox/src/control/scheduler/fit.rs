//! Whether a node admits a pod at all: selectors, affinity, taints, whatever does not depend on the
//! other pods.

use muster_objects::meta;
use serde_json::Value;

use super::super::json;

/// The node is cordoned.
pub const UNSCHEDULABLE: &str = "node(s) were unschedulable";
/// A taint keeps the pod away.
pub const TAINTED: &str = "node(s) had untolerated taint(s)";
/// Labels do not fit.
pub const NO_MATCH: &str = "node(s) didn't match Pod's node affinity/selector";
/// The taint of a cordoned node.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Why the node does not admit the pod, if it does not.
pub fn refusal(pod: &Value, node: &Value) -> Option<&'static str> {
    if json::flag(node, "/spec/unschedulable") && !tolerates(pod, CORDON, "", "NoSchedule") {
        return Some(UNSCHEDULABLE);
    }
    let hard = json::list(node, "/spec/taints")
        .iter()
        .filter(|taint| matches!(json::text(taint, "/effect"), "NoSchedule" | "NoExecute"));
    for taint in hard {
        let (key, value) = (json::text(taint, "/key"), json::text(taint, "/value"));
        if !tolerates(pod, key, value, json::text(taint, "/effect")) {
            return Some(TAINTED);
        }
    }
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    for (key, value) in wanted.into_iter().flatten() {
        if meta::label(node, key) != value.as_str() {
            return Some(NO_MATCH);
        }
    }
    let required =
        pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    if let Some(required) = required.filter(|r| !r.is_null()) {
        let terms = json::list(required, "/nodeSelectorTerms");
        if !terms.iter().any(|term| term_matches(term, node)) {
            return Some(NO_MATCH);
        }
    }
    None
}

fn tolerates(pod: &Value, key: &str, value: &str, effect: &str) -> bool {
    json::list(pod, "/spec/tolerations").iter().any(|toleration| {
        let its_key = json::text(toleration, "/key");
        let its_effect = json::text(toleration, "/effect");
        let exists = json::text(toleration, "/operator") == "Exists";
        (its_effect.is_empty() || its_effect == effect)
            && (its_key == key || (its_key.is_empty() && exists))
            && (exists || json::text(toleration, "/value") == value)
    })
}

/// All expressions of a term must hold; a term without any holds nowhere.
fn term_matches(term: &Value, node: &Value) -> bool {
    let labels = json::list(term, "/matchExpressions");
    let fields = json::list(term, "/matchFields");
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    labels.iter().all(|e| expression_holds(e, meta::label(node, json::text(e, "/key"))))
        && fields.iter().all(|e| {
            let value = (json::text(e, "/key") == "metadata.name").then(|| meta::name(node));
            expression_holds(e, value)
        })
}

fn expression_holds(expression: &Value, value: Option<&str>) -> bool {
    let values = json::list(expression, "/values");
    let listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    let number = || {
        let bound: i64 = values.first().and_then(Value::as_str)?.parse().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match json::text(expression, "/operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().is_some_and(|(value, bound)| value > bound),
        "Lt" => number().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
