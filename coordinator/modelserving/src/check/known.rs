//! Fields that are known. What is not is dropped by the API server without a word.

use serde_json::Value;

use crate::shape::Shape;
use muster_kube::FieldError;

/// What is said of a field that nobody knows.
pub const UNKNOWN: &str = "unknown field: the API server drops it";

/// The fields of an object, or of each object of a list. Without fields of its own, all below a field is free.
pub(super) struct Fields(pub(super) &'static [(&'static str, Option<&'static Fields>)]);

const TEMPLATE: Fields = Fields(&[("metadata", Some(&META)), ("spec", None)]);
const META: Fields = Fields(&[("annotations", None), ("labels", None)]);
const POLICY: Fields =
    Fields(&[("highestTierAllowed", None), ("highestTierName", None), ("mode", None)]);

const KTHENA_SPEC: Fields = Fields(&[
    (
        "plugins",
        Some(&Fields(&[
            ("config", None),
            ("name", None),
            ("scope", Some(&Fields(&[("roles", None), ("target", None)]))),
            ("type", None),
        ])),
    ),
    ("recoveryPolicy", None),
    ("replicas", None),
    (
        "rolloutStrategy",
        Some(&Fields(&[
            (
                "rollingUpdateConfiguration",
                Some(&Fields(&[("maxUnavailable", None), ("partition", None)])),
            ),
            ("type", None),
        ])),
    ),
    ("schedulerName", None),
    (
        "template",
        Some(&Fields(&[
            ("gangPolicy", Some(&Fields(&[("minRoleReplicas", None)]))),
            (
                "networkTopology",
                Some(&Fields(&[("groupPolicy", Some(&POLICY)), ("rolePolicy", Some(&POLICY))])),
            ),
            ("restartGracePeriodSeconds", None),
            (
                "roles",
                Some(&Fields(&[
                    ("entryTemplate", Some(&TEMPLATE)),
                    ("maxUnavailable", None),
                    ("name", None),
                    ("partition", None),
                    ("replicas", None),
                    ("workerReplicas", None),
                    ("workerTemplate", Some(&TEMPLATE)),
                ])),
            ),
        ])),
    ),
]);

const SHORT_SPEC: Fields = Fields(&[
    ("model", None),
    ("recoveryPolicy", None),
    ("roles", Some(&Fields(&[("name", None), ("replicas", None), ("template", Some(&TEMPLATE))]))),
    ("schedulerName", None),
]);

const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// The fields of a spec.
pub(super) fn spec(shape: Shape) -> &'static Fields {
    match shape {
        Shape::Kthena => &KTHENA_SPEC,
        Shape::Short => &SHORT_SPEC,
    }
}

/// The fields of an object that nobody knows.
pub(super) fn unknown(shape: Shape, raw: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    let top = raw.as_object().into_iter().flatten();
    for (key, value) in top.filter(|(key, _)| !TOP.contains(&key.as_str())) {
        found.push(error(key.clone(), value));
    }
    if let Some(value) = raw.get("spec") {
        walk(spec(shape), "spec", value, &mut found);
    }
    found
}

fn walk(fields: &Fields, at: &str, value: &Value, found: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(fields, &format!("{at}[{index}]"), item, found);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                let at = format!("{at}.{key}");
                match fields.0.iter().find(|(known, _)| known == key) {
                    Some((_, Some(fields))) => walk(fields, &at, value, found),
                    Some((_, None)) => {}
                    None => found.push(error(at, value)),
                }
            }
        }
        _ => {}
    }
}

fn error(at: String, value: &Value) -> FieldError {
    FieldError::invalid(at, value.clone(), UNKNOWN).remedy("correct its name or its place")
}
