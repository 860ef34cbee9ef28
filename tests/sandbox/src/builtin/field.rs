//! Reading and setting fields of a decoded object, where absent means unset.

use serde_json::{Map, Value};

/// The fields of an object; creates the object where there is none.
pub(super) use muster_objects::meta::as_map as fields;

/// The object at `key`, created where absent.
pub(super) fn within<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    fields(map.entry(key).or_insert(Value::Null))
}

/// The object at `key`, where there is one.
pub(super) fn object<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key)?.as_object_mut()
}

/// The objects of the list at `key`.
pub(super) fn items<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    let list = map.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Whether nothing was said: absent, null, an empty text, 0 or false.
pub(super) fn unset(map: &Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    }
}

/// Sets a plain field whose zero means unset.
pub(super) fn fill(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if unset(map, key) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a pointer field: any value, zero too, counts as set.
pub(super) fn fill_absent(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The text at a path of keys, empty where absent.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path of keys.
pub(super) fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The truth at a path of keys, false where absent.
pub(super) fn truth(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a path of keys, empty where absent.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The entries at a path of keys, none where absent.
pub(super) fn entries<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    at(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// The value at a path of keys; null counts as absent.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let mut value = value;
    for key in path {
        value = value.get(key)?;
    }
    (!value.is_null()).then_some(value)
}

/// Puts `from`'s value of `key` into `map`, or removes it where `from` has none.
pub(super) fn copy(map: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.get(key) {
        // Most often it is the same already, and comparing costs less than copying.
        Some(value) if map.get(key) != Some(value) => {
            map.insert(key.to_owned(), value.clone());
        }
        Some(_) => {}
        None => {
            map.remove(key);
        }
    }
}
