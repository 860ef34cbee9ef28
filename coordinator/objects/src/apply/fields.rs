//! The set of fields that an object names.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::fieldset::{Below, FieldSet, of_field, of_item};
use crate::shape::{ListKind, ListShape, MapShape, Shape};

/// Every leaf and every item that the object names.
pub fn fields(object: &Value, shape: &Shape) -> FieldSet {
    let mut set = FieldSet::new();
    node(object, shape, &mut set);
    set
}

/// Walks a node; true when the node itself is a leaf.
fn node(value: &Value, shape: &Shape, below: &mut FieldSet) -> bool {
    match shape.resolve() {
        Shape::Map(map) if map.atomic => return true,
        Shape::Map(map) => {
            if let Value::Object(entries) = value {
                visit_map(entries, Some(map), below);
            }
        }
        Shape::List(list) if list.kind == ListKind::Atomic => return true,
        Shape::List(list) => {
            if let Value::Array(items) = value {
                visit_list(items, list, below);
            }
        }
        Shape::Any => match value {
            Value::Object(entries) => visit_map(entries, None, below),
            Value::Null => {}
            _ => return true,
        },
        _ => return true,
    }
    false
}

fn visit_map(entries: &Map<String, Value>, shape: Option<&MapShape>, below: &mut FieldSet) {
    for (key, value) in entries {
        let field = shape.and_then(|s| s.field(key));
        let rest = shape.and_then(|s| s.rest.as_ref());
        let under = field.map(|f| &f.shape).or(rest).unwrap_or(&Shape::Any);
        let mut set = FieldSet::new();
        let leaf = node(value, under, &mut set);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        below.put(of_field(key), leaf || empty || field.is_none(), set);
    }
}

fn visit_list(items: &[Value], list: &ListShape, below: &mut FieldSet) {
    let elements: Vec<Option<String>> = items.iter().map(|i| of_item(list, i).ok()).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for element in elements.iter().flatten() {
        *count.entry(element).or_default() += 1;
    }
    for (item, element) in items.iter().zip(&elements) {
        let Some(element) = element else { continue };
        let mut set = FieldSet::new();
        if count.get(element.as_str()) == Some(&1) {
            node(item, &list.item, &mut set);
        }
        below.put(element.clone(), true, set);
    }
}

/// The set with every named field above its paths, too: a set of `a.b.c` then also has `a` where that
/// is a field of a struct, but not where it is a key of a map.
pub fn with_named(set: &FieldSet, shape: &Shape) -> FieldSet {
    named(set.view(), Some(shape))
}

fn named(below: Below<'_>, shape: Option<&Shape>) -> FieldSet {
    let map = shape.and_then(Shape::as_map);
    let list = shape.and_then(Shape::as_list);
    let any = shape.filter(|s| matches!(s.resolve(), Shape::Any));
    let mut set = FieldSet::new();
    for (element, node, member) in below.nodes() {
        let (under, is_named) = match element.strip_prefix("f:") {
            Some(name) => match map {
                Some(map) => (map.at(name), map.field(name).is_some()),
                None => (any, false),
            },
            None if element.starts_with("k:") => (list.map(|l| &l.item), false),
            None => (None, false),
        };
        set.put(element.to_owned(), member || is_named, named(node, under));
    }
    set
}
