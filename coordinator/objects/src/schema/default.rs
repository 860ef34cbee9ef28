//! Filling in of absent fields, and dropping of nulls that the schema does not allow.

use super::node::Node;
use serde_json::Value;

/// Drops nulls that are neither allowed nor replaced by a default, as is done to all that is written.
pub fn prune_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let field = node.field(key);
                !(value.is_null() && field.is_some_and(|f| !f.nullable && f.default.is_none()))
            });
            for (key, value) in map.iter_mut() {
                if let Some(field) = node.field(key) {
                    prune_nulls(field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &node.items {
                items.iter_mut().for_each(|item| prune_nulls(below, item));
            }
        }
        _ => {}
    }
}

/// Fills in defaults from the top down, so that a default is itself defaulted.
pub fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, field) in &node.properties {
                let Some(default) = &field.default else { continue };
                let present = map.get(name).is_some_and(|v| !v.is_null() || field.nullable);
                if !present {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(field) = node.field(name) else { continue };
                replace_null(field, value);
                fill(field, value);
            }
        }
        Value::Array(items) => {
            let Some(below) = &node.items else { return };
            for item in items {
                replace_null(below, item);
                fill(below, item);
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}
