//! From JSON Schema to the structural schemas of Kubernetes: one type each, nothing null, no references.

use serde_json::{Map, Value};

/// Cleans a schema and all below it.
pub(super) fn clean(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for noise in ["$schema", "$defs", "title"] {
        map.remove(noise);
    }
    one_type(map);
    unwrap_optional(map);
    if map.get("default").is_some_and(says_nothing) {
        map.remove("default");
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(clean);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(inner) {
            clean(inner);
        }
    }
    whole_numbers(map);
}

/// `[T, null]` is T: who writes null means nothing.
fn one_type(map: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = map.get("type") else { return };
    let only = types.iter().find(|kind| kind.as_str() != Some("null")).cloned();
    if let Some(only) = only {
        map.insert("type".to_owned(), only);
    }
}

fn unwrap_optional(map: &mut Map<String, Value>) {
    let Some(Value::Array(any)) = map.get("anyOf") else { return };
    let is_null = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("null");
    if !any.iter().any(is_null) {
        return;
    }
    let only = any.iter().find(|schema| !is_null(schema)).cloned();
    map.remove("anyOf");
    if let Some(Value::Object(only)) = only {
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
}

fn says_nothing(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() || fields.values().all(says_nothing),
        _ => false,
    }
}

/// Bounds of integers are integers.
fn whole_numbers(map: &mut Map<String, Value>) {
    for bound in ["minimum", "maximum"] {
        let whole = map.get(bound).and_then(Value::as_f64).filter(|n| n.fract() == 0.0);
        if let Some(whole) = whole {
            #[expect(clippy::cast_possible_truncation, reason = "bounds are small")]
            map.insert(bound.to_owned(), Value::from(whole as i64));
        }
    }
}
