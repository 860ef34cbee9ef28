//! The applied configuration laid over the live object: the configuration wins, nothing is removed.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::fieldset::of_item;
use crate::shape::{ListKind, ListShape, MapShape, Shape};

/// The live object with the configuration on top.
pub fn merge(live: &Value, config: &Value, shape: &Shape) -> Value {
    match shape.resolve() {
        Shape::Map(map) if !map.atomic => merge_map(live, config, Some(map)),
        Shape::List(list) if list.kind != ListKind::Atomic => merge_list(live, config, list),
        Shape::Any if matches!(config, Value::Object(_) | Value::Null) => {
            merge_map(live, config, None)
        }
        _ => config.clone(),
    }
}

fn merge_map(live: &Value, config: &Value, shape: Option<&MapShape>) -> Value {
    let left = live.as_object().filter(|m| !m.is_empty());
    let right = config.as_object().filter(|m| !m.is_empty());
    let (Some(left), Some(right)) = (left, right) else {
        // An empty side says nothing; two empty sides are a leaf.
        return if left.is_some() { live.clone() } else { config.clone() };
    };
    let mut out = Map::new();
    for (key, value) in left {
        let merged = match right.get(key) {
            Some(wanted) => {
                let under = shape.map_or(Some(&Shape::Any), |s| s.at(key));
                merge(value, wanted, under.unwrap_or(&Shape::Any))
            }
            None => value.clone(),
        };
        out.insert(key.clone(), merged);
    }
    for (key, value) in right {
        if !left.contains_key(key) {
            out.insert(key.clone(), value.clone());
        }
    }
    Value::Object(out)
}

/// Where an element first stands in a list; none in place of the item when it stands there twice.
type Index<'a> = HashMap<&'a str, Option<&'a Value>>;

fn elements(list: &ListShape, items: &[Value]) -> Vec<(String, usize)> {
    let named = items.iter().enumerate();
    named.filter_map(|(at, item)| Some((of_item(list, item).ok()?, at))).collect()
}

fn index<'a>(elements: &'a [(String, usize)], items: &'a [Value]) -> Index<'a> {
    let mut index = Index::new();
    for (element, at) in elements {
        let item = items.get(*at);
        index.entry(element).and_modify(|i| *i = None).or_insert(item);
    }
    index
}

/// Items by their keys, in an order that keeps the configuration's for what both have and the live
/// one's for the rest.
fn merge_list(live: &Value, config: &Value, list: &ListShape) -> Value {
    let left = live.as_array().map(Vec::as_slice).unwrap_or_default();
    let right = config.as_array().map(Vec::as_slice).unwrap_or_default();
    if left.is_empty() || right.is_empty() {
        return if left.is_empty() { config.clone() } else { live.clone() };
    }
    let (lefts, rights) = (elements(list, left), elements(list, right));
    let (in_left, in_right) = (index(&lefts, left), index(&rights, right));
    let both = |element: &str| {
        let mine = in_right.get(element).copied().flatten();
        let theirs = in_left.get(element).copied().flatten();
        match (theirs, mine) {
            (Some(theirs), Some(mine)) => Some(merge(theirs, mine, &list.item)),
            (_, Some(mine)) => Some(mine.clone()),
            (Some(theirs), None) => Some(theirs.clone()),
            (None, None) => None,
        }
    };
    let mut shared = rights.iter().map(|(e, _)| e).filter(|e| in_left.contains_key(e.as_str()));
    let mut next = shared.next();
    let mut done: std::collections::HashSet<&str> = std::collections::HashSet::new();
    let mut out: Vec<Value> = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < lefts.len() || r < rights.len() {
        if let (Some((a, _)), Some((b, _))) = (lefts.get(l), rights.get(r)) {
            if a == b {
                done.insert(b);
                out.extend(both(a));
                l += 1;
                r += 1;
                next = shared.next();
                continue;
            }
            if in_right.contains_key(a.as_str()) && next.is_some_and(|n| n != a) {
                // Shared, but its turn comes later.
                l += 1;
                continue;
            }
        }
        if let Some((a, at)) = lefts.get(l) {
            if !in_right.contains_key(a.as_str()) {
                out.extend(left.get(*at).cloned());
                l += 1;
                continue;
            }
            if done.contains(a.as_str()) {
                l += 1;
            }
        }
        if let Some((b, _)) = rights.get(r) {
            done.insert(b);
            out.extend(both(b));
            r += 1;
            if next == Some(b) {
                next = shared.next();
            }
        }
    }
    Value::Array(out)
}
