//! Nodes, disruption budgets, priority classes and leases.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use super::selector;
use crate::builtin::field::{at, list, number, text};
use crate::builtin::metadata::{complain, forbidden, immutable, invalid, not_supported, required};
use crate::builtin::names;

/// Taints of a node.
pub(super) fn taints(node: &Value, errors: &mut Vec<FieldError>) {
    let taints = list(node, &["spec", "taints"]);
    for (place, taint) in taints.iter().enumerate() {
        let field = format!("metadata.taints[{place}]");
        let key = text(taint, &["key"]);
        complain(errors, &format!("{field}.key"), key, names::qualified(key));
        let value = text(taint, &["value"]);
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(invalid(&format!("{field}.value"), &json!(value), wrong.join(";")));
        }
        let effect = text(taint, &["effect"]);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            errors.push(required(format!("{field}.effect"), ""));
        } else if !effects.contains(&effect) {
            errors.push(not_supported(&format!("{field}.effect"), effect, &effects));
        }
        let same =
            |other: &Value| text(other, &["key"]) == key && text(other, &["effect"]) == effect;
        if taints[..place].iter().any(same) {
            let mut error = FieldError::with_value(
                FieldErrorKind::Duplicate,
                field,
                taint,
                "taints must be unique by key and effect pair",
            );
            error.bad_value = muster_kube::BadValue::Printed(format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":null}}",
                json!(key),
                json!(value),
                json!(effect)
            ));
            errors.push(error);
        }
    }
}

/// What stays the same on a node, whichever endpoint changes it.
pub(super) fn node_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let addresses = list(new, &["status", "addresses"]);
    for (place, address) in addresses.iter().enumerate() {
        if addresses[..place].contains(address) {
            let mut error = FieldError::new(
                FieldErrorKind::Duplicate,
                format!("status.addresses[{place}]"),
                "",
            );
            error.bad_value = muster_kube::BadValue::Printed(format!(
                "{{\"Type\":{},\"Address\":{}}}",
                json!(text(address, &["type"])),
                json!(text(address, &["address"]))
            ));
            errors.push(error);
        }
    }
    let before = list(old, &["spec", "podCIDRs"]);
    if !before.is_empty() && before != list(new, &["spec", "podCIDRs"]) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(forbidden("spec.podCIDRs", detail));
    }
    let provider = text(old, &["spec", "providerID"]);
    if !provider.is_empty() && provider != text(new, &["spec", "providerID"]) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(forbidden("spec.providerID", detail));
    }
    taints(new, errors);
}

/// A namespace ends if and only if it is being deleted.
pub(super) fn namespace_phase(namespace: &Value, errors: &mut Vec<FieldError>) {
    let phase = text(namespace, &["status", "phase"]);
    let detail = match at(namespace, &["metadata", "deletionTimestamp"]) {
        None if phase != "Active" => "may only be 'Active' if `deletionTimestamp` is empty",
        Some(_) if phase != "Terminating" => {
            "may only be 'Terminating' if `deletionTimestamp` is not empty"
        }
        _ => return,
    };
    errors.push(invalid("status.Phase", &json!(phase), detail));
}

/// A number or a percentage, neither below zero.
pub(super) fn amount_or_percent(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                errors.push(invalid(
                    field,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ));
            }
        }
        other => {
            if other.as_i64().is_some_and(|number| number < 0) {
                errors.push(invalid(field, value, "must be greater than or equal to 0"));
            }
        }
    }
}

/// No more than all of it.
pub(super) fn at_most_all(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(invalid(field, value, "must not be greater than 100%"));
    }
}

/// A disruption budget.
pub(super) fn disruption_budget(budget: &Value, errors: &mut Vec<FieldError>) {
    let least = at(budget, &["spec", "minAvailable"]);
    let most = at(budget, &["spec", "maxUnavailable"]);
    if least.is_some() && most.is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let mut error = invalid("spec", &Value::Null, detail);
        let part = |key: &str| at(budget, &["spec", key]).cloned().unwrap_or_default();
        error.bad_value = muster_kube::BadValue::Printed(format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy")
        ));
        errors.push(error);
    }
    for (value, field) in [(least, "spec.minAvailable"), (most, "spec.maxUnavailable")] {
        if let Some(value) = value {
            amount_or_percent(value, field, errors);
            at_most_all(value, field, errors);
        }
    }
    if let Some(one) = at(budget, &["spec", "selector"]) {
        selector::check(one, "spec.selector", errors);
    }
    let policy = text(budget, &["spec", "unhealthyPodEvictionPolicy"]);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(not_supported("spec.unhealthyPodEvictionPolicy", policy, &policies));
    }
}

/// A priority class.
pub(super) fn priority_class(class: &Value, errors: &mut Vec<FieldError>) {
    let name = text(class, &["metadata", "name"]);
    let value = number(class, &["value"]).unwrap_or_default();
    if name.starts_with("system-") {
        let known = match name {
            "system-cluster-critical" => Some(2_000_000_000),
            "system-node-critical" => Some(2_000_001_000),
            _ => None,
        };
        let why = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some(right) if right != value => {
                Some(format!("value of {name} PriorityClass must be {right}"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            errors.push(forbidden(
                "metadata.name",
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                ),
            ));
        }
    } else if value > 1_000_000_000 {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(forbidden("value", detail));
    }
    let policy = text(class, &["preemptionPolicy"]);
    let policies = ["PreemptLowerPriority", "Never"];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(not_supported("preemptionPolicy", policy, &policies));
    }
}

/// A priority class keeps its value.
pub(super) fn priority_class_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if new.get("value") != old.get("value") {
        errors.push(forbidden("value", "may not be changed in an update."));
    }
    let policy = |class: &Value| class.get("preemptionPolicy").cloned();
    immutable("preemptionPolicy", policy(new).as_ref(), policy(old).as_ref(), errors);
}

pub(super) fn lease(lease: &Value, errors: &mut Vec<FieldError>) {
    if let Some(seconds) = number(lease, &["spec", "leaseDurationSeconds"]).filter(|n| *n <= 0) {
        let field = "spec.leaseDurationSeconds";
        errors.push(invalid(field, &json!(seconds), "must be greater than 0"));
    }
    if let Some(count) = number(lease, &["spec", "leaseTransitions"]).filter(|n| *n < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(invalid("spec.leaseTransitions", &json!(count), detail));
    }
    let strategy = text(lease, &["spec", "strategy"]);
    if !text(lease, &["spec", "preferredHolder"]).is_empty() && strategy.is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(forbidden("spec.preferredHolder", detail));
    }
}
