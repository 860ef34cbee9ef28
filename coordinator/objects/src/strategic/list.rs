//! How lists merge and in which order the items stand afterwards.

use serde_json::Value;

use super::{Object, PATCH, bad_list, merge_map, no_merge_key, plain, shown, unknown_directive};
use crate::shape::{Patch, Shape};
use crate::status::Status;

/// Two lists by the rules of their field.
pub(super) fn merge(
    old: Vec<Value>,
    new: Vec<Value>,
    item: Option<&Shape>,
    rule: &Patch,
) -> Result<Vec<Value>, Status> {
    if !rule.merge {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if !are_maps(&old, &new)? {
        let mut merged: Vec<Value> = Vec::with_capacity(old.len() + new.len());
        for value in old.iter().chain(&new) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return in_order(merged, &new, &old, None);
    }
    let Some(key) = rule.key.as_deref() else {
        return Err(plain("cannot merge lists without merge key".to_owned()));
    };
    let (old, new) = special(old, new, key)?;
    let server = old.clone();
    let mut merged = old;
    for value in &new {
        let map = object(value)?;
        let wanted = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
        match position(&merged, key, wanted)? {
            Some(at) => {
                if let Some(slot) = merged.get_mut(at) {
                    let was = std::mem::take(slot);
                    let was = was.as_object().cloned().unwrap_or_default();
                    *slot = Value::Object(merge_map(was, map.clone(), item)?);
                }
            }
            None => merged.push(value.clone()),
        }
    }
    in_order(merged, &new, &server, Some(key))
}

/// Whether the items are objects. Items of several types, or lists, are refused.
fn are_maps(old: &[Value], new: &[Value]) -> Result<bool, Status> {
    let mut all = old.iter().chain(new);
    if all.clone().any(Value::is_array) {
        return Err(bad_list());
    }
    let maps = all.next().is_some_and(Value::is_object);
    if all.any(|item| item.is_object() != maps) {
        return Err(plain("list element types are not identical".to_owned()));
    }
    Ok(maps)
}

fn object(value: &Value) -> Result<&Object, Status> {
    value
        .as_object()
        .ok_or_else(|| plain("expected a map[string]interface {}, but received another".into()))
}

fn position(items: &[Value], key: &str, wanted: &Value) -> Result<Option<usize>, Status> {
    for (at, item) in items.iter().enumerate() {
        if object(item)?.get(key) == Some(wanted) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Carries out the items that are directives; what remains of both lists.
fn special(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut rest = Vec::with_capacity(new.len());
    let mut replace = false;
    for value in new {
        let map = object(&value)?;
        match map.get(PATCH).map(|d| (d, d.as_str())) {
            None => rest.push(value),
            Some((_, Some("delete"))) => {
                let gone = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
                old.retain(|item| item.get(key) != Some(gone));
            }
            Some((_, Some("replace"))) => replace = true,
            Some((_, Some("merge"))) => {
                return Err(plain("merging lists cannot yet be specified in the patch".into()));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, map)),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (old, rest) })
}

fn identity<'a>(item: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

fn index(items: &[Value], wanted: &Value, key: Option<&str>) -> Option<usize> {
    let wanted = identity(wanted, key);
    items.iter().position(|item| identity(item, key) == wanted)
}

/// Items named in `order` stand in that order; the others keep their place in the live list as far as
/// that can be.
pub(super) fn in_order(
    merged: Vec<Value>,
    order: &[Value],
    server: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Status> {
    if let Some(key) = key {
        for item in &merged {
            let map = object(item)?;
            map.get(key).ok_or_else(|| no_merge_key(map, key))?;
        }
    }
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| index(order, item, key).is_some());
    named.sort_by_key(|item| index(order, item, key));
    others.sort_by_key(|item| index(server, item, key).unwrap_or(usize::MAX));
    let mut left = others.into_iter().peekable();
    let mut right = named.into_iter().peekable();
    let mut all = Vec::new();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return Ok(all),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(l), Some(r)) => match (index(server, l, key), index(server, r, key)) {
                (Some(l), Some(r)) => l < r,
                _ => false,
            },
        };
        all.extend(if take_left { left.next() } else { right.next() });
    }
}

/// Every item of the patch must stand in its order list, in the same order.
pub(super) fn check_order(new: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    let kept: Vec<&Value> = new.iter().filter(|item| item.get(PATCH).is_none()).collect();
    let mut at = 0;
    for item in kept {
        let wanted = identity(item, key);
        match order.iter().skip(at).position(|o| identity(o, key) == wanted) {
            Some(ahead) => at += ahead + 1,
            None => {
                return Err(plain(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    shown(&Value::Array(new.to_vec())),
                    shown(&Value::Array(order.to_vec()))
                )));
            }
        }
    }
    Ok(())
}
