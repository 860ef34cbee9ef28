//! Strategic merge patch: a merge patch that knows the lists of the built-in kinds.
//!
//! Objects merge; lists are replaced unless the field says that they merge, then by its merge key. The
//! directives `$patch`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x` and `$retainKeys` steer.

use serde_json::{Map, Value};

use crate::patch::unprocessable;
use crate::shape::{Patch, Shape};
use crate::status::Status;

mod list;
#[cfg(test)]
mod tests;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

type Object = Map<String, Value>;

/// Whether a kind takes strategic merge patches: the built-ins do, custom resources do not.
pub fn supports(group: &str, kind: &str) -> bool {
    Shape::is_builtin(group, kind)
}

/// The object after a strategic merge patch.
pub fn strategic(live: &Value, patch: &Value, shape: &Shape) -> Result<Value, Status> {
    let Value::Object(patch) = patch else {
        return Err(Status::bad_request(
            "json: cannot unmarshal the patch into Go value of type map[string]interface {}",
        ));
    };
    let live = live.as_object().cloned().unwrap_or_default();
    merge_map(live, patch.clone(), Some(shape)).map(Value::Object)
}

/// A refusal that Kubernetes does not dress up: code 500, no reason.
fn plain(message: String) -> Status {
    Status::new(500, "", message)
}

fn no_merge_key(item: &Object, key: &str) -> Status {
    let map = Value::Object(item.clone());
    plain(format!("map: {} does not contain declared merge key: {key}", shown(&map)))
}

fn unknown_directive(directive: &Value, map: &Object) -> Status {
    let map = Value::Object(map.clone());
    plain(format!("unknown patch type: {} in map: {}", shown(directive), shown(&map)))
}

fn bad_list() -> Status {
    unprocessable()
}

/// A value as Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}:{}", shown(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// The rules of a field and the shape of its value.
fn rules<'a>(shape: Option<&'a Shape>, key: &str) -> (Option<&'a Shape>, Patch) {
    let Some(map) = shape.and_then(Shape::as_map) else { return (None, Patch::default()) };
    match map.field(key) {
        Some(field) => (Some(&field.shape), field.patch.clone()),
        None => (map.rest.as_ref(), Patch::default()),
    }
}

fn merge_map(
    mut original: Object,
    mut patch: Object,
    shape: Option<&Shape>,
) -> Result<Object, Status> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, shape)?;
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_FROM) {
            delete_from(&mut original, name, &value)?;
            continue;
        }
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (under, _) = rules(shape, &key);
                Some(Value::Object(merge_map(old, new, under)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let (under, rule) = rules(shape, &key);
                let item = under.and_then(Shape::as_list).map(|l| &l.item);
                Some(Value::Array(list::merge(old, new, item, &rule)?))
            }
            (_, mut new) => {
                discard_nulls(&mut new);
                without_directives(new)
            }
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// `$retainKeys`: all else goes.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || Status::bad_request("invalid patch format of retainKeys");
    let Value::Array(keys) = directive else { return Err(bad()) };
    let kept = |key: &str| keys.iter().any(|k| k.as_str() == Some(key));
    let stray = patch.iter().any(|(key, value)| {
        !value.is_null()
            && !key.starts_with(DELETE_FROM)
            && !key.starts_with(SET_ORDER)
            && !kept(key)
    });
    if stray {
        return Err(bad());
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// `$setElementOrder/x`: merges `x` and puts its items in that order.
fn set_orders(
    original: &mut Object,
    patch: &mut Object,
    shape: Option<&Shape>,
) -> Result<(), Status> {
    let directives: Vec<String> =
        patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(plain(
                "expected a []interface {}, but received another type in $setElementOrder".into(),
            ));
        };
        let name = directive.strip_prefix(SET_ORDER).unwrap_or_default();
        let (under, rule) = rules(shape, name);
        let item = under.and_then(Shape::as_list).map(|l| &l.item);
        let new = match patch.remove(name) {
            None => None,
            Some(Value::Array(items)) => Some(items),
            Some(_) => return Err(plain("expected a []interface {} in the patch".into())),
        };
        list::check_order(new.as_deref().unwrap_or_default(), &order, rule.key.as_deref())?;
        let old = match original.get(name) {
            None => None,
            Some(Value::Array(items)) => Some(items.clone()),
            Some(_) => return Err(plain("expected a []interface {} in the object".into())),
        };
        let merged = match (old.clone(), new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) => list::merge(old, new, item, &rule)?,
        };
        let server = old.unwrap_or_default();
        let sorted = list::in_order(merged, &order, &server, rule.key.as_deref())?;
        original.insert(name.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

/// `$deleteFromPrimitiveList/x`: takes values out of `x`.
fn delete_from(original: &mut Object, name: &str, gone: &Value) -> Result<(), Status> {
    let Value::Array(gone) = gone else {
        return Err(Status::bad_request("invalid patch format of primitive list"));
    };
    if let Some(Value::Array(items)) = original.get_mut(name) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without what is only an instruction; none when all of it is.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?))).collect(),
        )),
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}
