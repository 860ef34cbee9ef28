//! Uniqueness in lists of type `set` and `map`.

use super::node::Node;
use super::{path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Checks all lists below `value`.
pub fn check(node: &Node, value: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(node, value, at, &mut errors);
    errors
}

fn visit(node: &Node, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(field) = node.properties.get(key) {
                    visit(field, value, &path::child(at, key), errors);
                } else if let Some(values) = node.values() {
                    visit(values, value, &path::key(at, key), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type.as_deref() {
                Some("set") => {
                    for i in repeated(items.iter()) {
                        errors.push(duplicate(at, i, &items[i]));
                    }
                }
                Some("map") => check_map(node, items, at, errors),
                _ => {}
            }
            if let Some(below) = &node.items {
                for (i, item) in items.iter().enumerate() {
                    visit(below, item, &path::index(at, i), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(node: &Node, items: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    for (i, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let why = "must be an object for an array of list-type map";
            errors.push(print::error(Kind::Invalid, path::index(at, i), item, why));
            return;
        }
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let pairs = node
                .list_map_keys
                .iter()
                .filter_map(|key| item.get(key).map(|v| (key.clone(), v.clone())));
            Value::Object(pairs.collect::<Map<_, _>>())
        })
        .collect();
    for i in repeated(keys.iter()) {
        errors.push(duplicate(at, i, &keys[i]));
    }
}

fn duplicate(at: &str, index: usize, value: &Value) -> FieldError {
    print::error(Kind::Duplicate, path::index(at, index), value, "")
}

/// The second place of each value that stands more than once.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut places = Vec::new();
    for (i, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_insert(0);
        *times += 1;
        if *times == 2 {
            places.push(i);
        }
    }
    places
}
