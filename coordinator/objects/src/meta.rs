//! Short names for the parts of `metadata` that the server itself reads.

use serde_json::{Map, Value};

/// `metadata.<field>` as text, empty when absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// The object's `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// The object's `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// The object's `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// The value of a label; empty without it.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The value of an annotation; empty without it.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// `metadata.finalizers`, as far as they are text.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.get("metadata").and_then(|m| m.get("finalizers")).and_then(Value::as_array);
    list.map(|l| l.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// The object's `metadata.ownerReferences`.
pub fn owners(object: &Value) -> &[Value] {
    let list =
        object.get("metadata").and_then(|m| m.get("ownerReferences")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Whether deletion has begun.
pub fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// `metadata` for writing; made when absent, replaced when it is no object.
pub fn edit(object: &mut Value) -> &mut Map<String, Value> {
    field(object, "metadata")
}

/// The object below `key` for writing; made when absent, replaced when it is no object.
pub fn field<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(object).entry(key).or_insert(Value::Null))
}

/// The value as a map for writing; anything else is replaced by an empty one.
#[expect(clippy::expect_used, reason = "the line before made it an object")]
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("an object")
}
