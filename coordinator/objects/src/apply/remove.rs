//! Taking a set of fields out of an object.

use serde_json::{Map, Value};

use crate::fieldset::{Below, of_item};
use crate::shape::{ListKind, ListShape, MapShape, Shape};

/// Removes every field and item in the set. What is emptied by that becomes null.
pub fn remove(value: &mut Value, set: Below<'_>, shape: &Shape) {
    match (shape.resolve(), &mut *value) {
        (Shape::Map(map), Value::Object(entries)) if !map.atomic => {
            remove_fields(entries, set, Some(map));
            if entries.is_empty() {
                *value = Value::Null;
            }
        }
        (Shape::Any, Value::Object(entries)) => {
            remove_fields(entries, set, None);
            if entries.is_empty() {
                *value = Value::Null;
            }
        }
        (Shape::List(list), Value::Array(items)) if list.kind != ListKind::Atomic => {
            remove_items(items, set, list);
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        _ => {}
    }
}

fn remove_fields(entries: &mut Map<String, Value>, set: Below<'_>, shape: Option<&MapShape>) {
    for (element, below, member) in set.nodes() {
        let Some(name) = element.strip_prefix("f:") else { continue };
        let Some(value) = entries.get_mut(name) else { continue };
        if member {
            entries.remove(name);
            continue;
        }
        let under = shape.map_or(Some(&Shape::Any), |s| s.at(name)).unwrap_or(&Shape::Any);
        remove(value, below, under);
    }
}

fn remove_items(items: &mut Vec<Value>, set: Below<'_>, list: &ListShape) {
    items.retain_mut(|item| {
        let Ok(element) = of_item(list, item) else { return true };
        if set.has(&element) {
            return false;
        }
        if let Some(below) = set.below(&element) {
            remove(item, below, &list.item);
        }
        true
    });
}
