//! ClusterRoles that are the sum of others, chosen by labels.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{RoleSource, items, text};
use crate::meta;

/// The rules of a ClusterRole. Those of an aggregated role are the rules of all roles it selects.
pub fn rules_of(source: &impl RoleSource, role: &Value) -> Vec<Value> {
    let mut rules = Vec::new();
    gather(source, role, &mut BTreeSet::new(), &mut rules);
    rules
}

fn gather(
    source: &impl RoleSource,
    role: &Value,
    seen: &mut BTreeSet<String>,
    rules: &mut Vec<Value>,
) {
    if !seen.insert(meta::name(role).to_owned()) {
        return;
    }
    let Some(aggregation) = role.get("aggregationRule").filter(|rule| rule.is_object()) else {
        for rule in items(role, "rules") {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        return;
    };
    let all = source.cluster_roles();
    for selector in items(aggregation, "clusterRoleSelectors") {
        for other in all.iter().map(AsRef::as_ref).filter(|other| selects(selector, other)) {
            gather(source, other, seen, rules);
        }
    }
}

/// Whether a label selector object (`matchLabels`, `matchExpressions`) selects the object.
/// An empty selector selects everything; an unknown operator nothing.
pub fn selects(selector: &Value, object: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let equal =
        labels.into_iter().flatten().all(|(key, value)| meta::label(object, key) == value.as_str());
    equal && items(selector, "matchExpressions").all(|expression| holds(expression, object))
}

fn holds(expression: &Value, object: &Value) -> bool {
    let label = meta::label(object, text(expression, "key"));
    let among = label.is_some_and(|label| items(expression, "values").any(|v| v == label));
    match text(expression, "operator") {
        "In" => among,
        "NotIn" => !among,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}
