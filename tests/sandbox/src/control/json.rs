//! Short ways to read JSON objects and to keep their conditions.

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::{Value, json};

use crate::clock::seconds;

/// Text at a JSON pointer, empty when absent.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// A whole number at a JSON pointer.
pub fn int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// A truth value at a JSON pointer, false when absent.
pub fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// A list at a JSON pointer, empty when absent.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A time at a JSON pointer.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// The condition of a type in `status.conditions`.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|c| text(c, "/type") == kind)
}

/// Whether the condition of a type is True.
pub fn is_true(object: &Value, condition_type: &str) -> bool {
    condition(object, condition_type).is_some_and(|c| text(c, "/status") == "True")
}

/// The owner that controls the object: (apiVersion, kind, name, uid).
pub fn controller(object: &Value) -> Option<&Value> {
    meta::owners(object).iter().find(|owner| flag(owner, "/controller"))
}

/// The uid of the controller of this kind and group.
pub fn controller_uid<'a>(object: &'a Value, group: &str, kind: &str) -> Option<&'a str> {
    let owner = controller(object)?;
    let owner_group = text(owner, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    (owner_group == group && text(owner, "/kind") == kind).then(|| text(owner, "/uid"))
}

/// A controlling owner reference to `owner`.
pub fn controller_reference(kind: &super::kind::Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": meta::name(owner),
        "uid": meta::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Whole seconds, as Kubernetes writes times.
pub fn stamp(now: Timestamp) -> Value {
    seconds(now).into()
}
