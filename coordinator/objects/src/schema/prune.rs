//! Dropping of fields that the schema does not know.

use super::node::{Additional, Node};
use super::path;
use serde_json::{Map, Value};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const OBJECT_META: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OWNER_REFERENCE: [&str; 6] =
    ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGED_FIELDS: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Prunes a resource below `node`; the paths of what was dropped come back sorted.
pub fn resource(node: &Node, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    prune(Some(node), object, true, "", &mut dropped);
    dropped.sort();
    dropped
}

/// Prunes a value that may or may not be a resource, and says whether anything was dropped.
pub fn is_pruned(node: &Node, value: &Value) -> bool {
    let mut copy = value.clone();
    let mut dropped = Vec::new();
    prune(Some(node), &mut copy, node.embedded, "", &mut dropped);
    copy == *value
}

fn prune(
    node: Option<&Node>,
    value: &mut Value,
    resource: bool,
    at: &str,
    dropped: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => prune_map(node, map, resource, at, dropped),
        Value::Array(items) => {
            let preserve = node.is_some_and(|n| n.preserve);
            let below = node.and_then(|n| n.items.as_deref());
            if preserve && below.is_none() {
                return;
            }
            for (i, item) in items.iter_mut().enumerate() {
                let at = path::index(at, i);
                match below {
                    Some(items) if preserve => skip(items, item, &at, dropped),
                    below => prune(below, item, below.is_some_and(|n| n.embedded), &at, dropped),
                }
            }
        }
        _ => {}
    }
}

/// Items of a list that preserves unknown fields: only what has a schema is pruned.
fn skip(node: &Node, value: &mut Value, at: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                prune_meta(map, at, dropped);
            }
            prune_known(node, map, node.embedded, at, dropped);
        }
        Value::Array(items) => {
            let Some(below) = node.items.as_deref() else { return };
            for (i, item) in items.iter_mut().enumerate() {
                skip(below, item, &path::index(at, i), dropped);
            }
        }
        _ => {}
    }
}

fn prune_map(
    node: Option<&Node>,
    map: &mut Map<String, Value>,
    resource: bool,
    at: &str,
    dropped: &mut Vec<String>,
) {
    let Some(node) = node else {
        dropped.extend(map.keys().map(|key| path::child(at, key)));
        map.clear();
        return;
    };
    if resource {
        prune_meta(map, at, dropped);
    }
    if !node.preserve && node.additional.is_none() {
        map.retain(|key, _| {
            let keep = node.properties.contains_key(key)
                || (resource && META_FIELDS.contains(&key.as_str()));
            if !keep {
                dropped.push(path::child(at, key));
            }
            keep
        });
    }
    prune_known(node, map, resource, at, dropped);
}

/// Goes down into the fields that have a schema.
fn prune_known(
    node: &Node,
    map: &mut Map<String, Value>,
    resource: bool,
    at: &str,
    dropped: &mut Vec<String>,
) {
    for (key, value) in map.iter_mut() {
        if resource && META_FIELDS.contains(&key.as_str()) {
            continue;
        }
        if let Some(field) = node.properties.get(key) {
            prune(Some(field), value, field.embedded, &path::child(at, key), dropped);
        } else if let Some(additional) = &node.additional {
            let below = match additional {
                Additional::Schema(values) => Some(&**values),
                Additional::Any(_) => None,
            };
            let resource = below.is_some_and(|n| n.embedded);
            prune(below, value, resource, &path::child(at, key), dropped);
        }
    }
}

/// Metadata keeps the fields of ObjectMeta only.
fn prune_meta(map: &mut Map<String, Value>, at: &str, dropped: &mut Vec<String>) {
    let Some(Value::Object(meta)) = map.get_mut("metadata") else { return };
    let at = path::child(at, "metadata");
    retain(meta, &OBJECT_META, &at, dropped);
    for (list, known) in
        [("ownerReferences", &OWNER_REFERENCE[..]), ("managedFields", &MANAGED_FIELDS[..])]
    {
        let Some(Value::Array(items)) = meta.get_mut(list) else { continue };
        for (i, item) in items.iter_mut().enumerate() {
            if let Value::Object(item) = item {
                retain(item, known, &path::index(&path::child(&at, list), i), dropped);
            }
        }
    }
}

fn retain(map: &mut Map<String, Value>, known: &[&str], at: &str, dropped: &mut Vec<String>) {
    map.retain(|key, _| {
        let keep = known.contains(&key.as_str());
        if !keep {
            dropped.push(path::child(at, key));
        }
        keep
    });
}
