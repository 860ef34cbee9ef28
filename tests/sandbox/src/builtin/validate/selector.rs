//! Label selectors: what they may say, and whether they match.

use muster_kube::FieldError;
use serde_json::{Value, json};

use crate::builtin::field::{entries, list, text};
use crate::builtin::metadata::{complain, forbidden, invalid, labels, required};
use crate::builtin::names;

/// Checks a label selector at `field`.
pub(super) fn check(selector: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let empty = Value::Null;
    let field_labels = format!("{field}.matchLabels");
    labels(selector.get("matchLabels").unwrap_or(&empty), &field_labels, errors);
    for (place, rule) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{place}]");
        let values = list(rule, &["values"]);
        match text(rule, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.push(required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(invalid(
                &format!("{field}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        let key = text(rule, &["key"]);
        complain(errors, &format!("{field}.key"), key, names::qualified(key));
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let field = format!("{field}.values[{at}]");
            complain(errors, &field, value, names::label_value(value));
        }
    }
}

/// Whether the selector says nothing.
pub(super) fn is_empty(selector: &Value) -> bool {
    entries(selector, &["matchLabels"]).next().is_none()
        && list(selector, &["matchExpressions"]).is_empty()
}

/// Whether the selector can be read at all.
pub(super) fn is_sound(selector: &Value) -> bool {
    let mut errors = Vec::new();
    check(selector, "", &mut errors);
    errors.is_empty()
}

/// Whether labels match the selector; an empty one matches all.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    entries(selector, &["matchLabels"]).all(|(key, value)| has(key) == value.as_str())
        && list(selector, &["matchExpressions"]).iter().all(|rule| {
            let found = has(text(rule, &["key"]));
            let among = || {
                list(rule, &["values"])
                    .iter()
                    .any(|value| found.is_some() && value.as_str() == found)
            };
            match text(rule, &["operator"]) {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}
