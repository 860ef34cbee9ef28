//! Resources inside of resources: they need an apiVersion and a kind of their own.

use super::node::Node;
use super::{names, path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Map, Value};

/// Checks all embedded resources at and below `value`.
pub fn check(node: &Node, value: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(node, value, at, &mut errors);
    errors
}

fn visit(node: &Node, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                check_resource(map, at, errors);
            }
            for (key, value) in map {
                if let Some(field) = node.properties.get(key) {
                    visit(field, value, &path::child(at, key), errors);
                } else if let Some(values) = node.values() {
                    visit(values, value, &path::key(at, key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &node.items else { return };
            for (i, item) in items.iter().enumerate() {
                visit(below, item, &path::index(at, i), errors);
            }
        }
        _ => {}
    }
}

fn check_resource(map: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    let version_at = path::child(at, "apiVersion");
    let kind_at = path::child(at, "kind");
    for (name, field) in [("apiVersion", &version_at), ("kind", &kind_at)] {
        if !map.contains_key(name) {
            errors.push(FieldError::new(Kind::Required, field, ""));
        }
    }
    if let Some(version) = map.get("apiVersion") {
        let why = match version.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) if text.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {text}"))
            }
            Some(_) => None,
        };
        errors.extend(why.map(|why| print::error(Kind::Invalid, &version_at, version, why)));
    }
    if let Some(kind) = map.get("kind") {
        let why = match kind.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) => {
                let why = names::dns_1035_label(&text.to_lowercase());
                (!why.is_empty()).then(|| {
                    format!("may have mixed case, but should otherwise match: {}", why.join(","))
                })
            }
        };
        errors.extend(why.map(|why| print::error(Kind::Invalid, &kind_at, kind, why)));
    }
}
