//! What lists of type `map` and `set` need in a schema.

use super::schema_rules::LIST_TYPE;
use super::{array, text};
use crate::schema::{path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

const LIST_KEYS: &str = "x-kubernetes-list-map-keys";

/// Checks a list of type `map` or `set`.
pub fn check(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let keys = array(schema, LIST_KEYS);
    let list = text(schema, LIST_TYPE);
    let items = &schema["items"];
    let items_at = path::child(at, "items");
    if !keys.is_empty() && list != "map" {
        let at = path::child(at, LIST_TYPE);
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if schema.get(LIST_TYPE).is_none() {
            FieldError::new(Kind::Required, at, why)
        } else {
            print::error(Kind::Invalid, at, &json!(list), why)
        });
    }
    if list == "map" {
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::new(Kind::Required, path::child(at, LIST_KEYS), why));
        }
        if items.is_null() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::new(Kind::Required, &items_at, why));
        } else if items.is_object() && text(items, "type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            let at = path::child(&items_at, "type");
            errors.push(print::error(Kind::Invalid, at, &json!(text(items, "type")), why));
        } else {
            check_list_keys(keys, items, at, errors);
        }
    }
    if (list == "map" || list == "set") && items["nullable"] == json!(true) {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        errors.push(FieldError::new(Kind::Forbidden, path::child(&items_at, "nullable"), why));
    }
    if list != "map" || !items.is_object() {
        return;
    }
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(property) = items["properties"].get(key) else { continue };
        let at = path::key(&path::child(&items_at, "properties"), key);
        let required = array(items, "required").iter().any(|r| r == key);
        if !required && property.get("default").is_none_or(Value::is_null) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::new(Kind::Required, path::child(&at, "default"), why));
        }
        if property["nullable"] == json!(true) {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::new(Kind::Forbidden, path::child(&at, "nullable"), why));
        }
    }
}

fn check_list_keys(keys: &[Value], items: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let keys_at = path::child(at, LIST_KEYS);
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items["properties"].get(name) {
            None => {
                let why = "entries must all be names of item properties";
                errors.push(print::error(Kind::Invalid, &keys_at, &json!(keys), why));
            }
            Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                let at = path::child(&path::child(at, "items"), "properties");
                let at = path::child(&path::key(&at, name), "type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(print::error(Kind::Invalid, at, &items["type"], why));
            }
            Some(_) => {}
        }
        if keys[..i].contains(key) {
            let why = "must not contain duplicate entries";
            errors.push(print::error(Kind::Invalid, &keys_at, &json!(keys), why));
        }
    }
}
