//! What differs between two objects, as sets of fields.
//!
//! Both objects are walked at once beside their shape; equal parts cost one comparison and nothing
//! is copied but the names of what differs.

use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, of_field, of_item};
use crate::shape::{ListKind, ListShape, MapShape, Shape};

/// The difference from one object to another.
#[derive(Debug, Default, PartialEq)]
pub struct Diff {
    /// Paths that were added or hold another value.
    pub changed: FieldSet,
    /// Paths that are gone.
    pub removed: FieldSet,
}

/// What became of one node itself, apart from what is below it.
#[derive(Clone, Copy, Default)]
struct Fate {
    changed: bool,
    removed: bool,
}

/// How a value is walked.
#[derive(Clone, Copy)]
enum Form<'a> {
    Leaf,
    Map(&'a MapShape),
    AnyMap,
    List(&'a ListShape),
}

/// Compares two objects; an absent one has no fields at all.
pub fn compare(old: Option<&Value>, new: Option<&Value>, shape: &Shape) -> Diff {
    let empty = Value::Object(Map::new());
    let mut diff = Diff::default();
    node(Some(old.unwrap_or(&empty)), Some(new.unwrap_or(&empty)), shape, &mut diff);
    diff
}

fn form<'a>(shape: &'a Shape, value: &Value) -> Form<'a> {
    match shape.resolve() {
        Shape::Map(map) if map.atomic => Form::Leaf,
        Shape::Map(map) => Form::Map(map),
        Shape::List(list) if list.kind == ListKind::Atomic => Form::Leaf,
        Shape::List(list) => Form::List(list),
        Shape::Any if matches!(value, Value::Object(_) | Value::Null) => Form::AnyMap,
        _ => Form::Leaf,
    }
}

/// Walks one node; `below` takes the paths under it.
fn node(old: Option<&Value>, new: Option<&Value>, shape: &Shape, below: &mut Diff) -> Fate {
    match (old, new) {
        (None, None) => Fate::default(),
        (Some(old), Some(new)) if old == new => Fate::default(),
        (Some(only), None) | (None, Some(only)) => visit(form(shape, only), old, new, below),
        (Some(left), Some(right)) => {
            let (was, is) = (form(shape, left), form(shape, right));
            let fate = visit(is, old, new, below);
            if matches!((was, is), (Form::AnyMap, Form::Leaf) | (Form::Leaf, Form::AnyMap)) {
                let other = visit(was, old, new, below);
                return Fate {
                    changed: fate.changed || other.changed,
                    removed: fate.removed || other.removed,
                };
            }
            fate
        }
    }
}

fn visit(form: Form<'_>, old: Option<&Value>, new: Option<&Value>, below: &mut Diff) -> Fate {
    let walked = match form {
        Form::Leaf => false,
        Form::List(list) => {
            let (left, right) = (items(old), items(new));
            if left.is_empty() && right.is_empty() {
                false
            } else {
                visit_list(list, left, right, below);
                true
            }
        }
        Form::Map(shape) => visit_map(Some(shape), old, new, below),
        Form::AnyMap => visit_map(None, old, new, below),
    };
    match (old, new) {
        (None, _) => Fate { changed: true, removed: false },
        (_, None) => Fate { changed: false, removed: true },
        (Some(old), Some(new)) => Fate { changed: !walked && old != new, removed: false },
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// False when both sides are empty, which makes a leaf of them.
fn visit_map(
    shape: Option<&MapShape>,
    old: Option<&Value>,
    new: Option<&Value>,
    below: &mut Diff,
) -> bool {
    let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
        return false;
    }
    // An unset field that is always present counts as there, if its parent is.
    let zero = |key: &str, parent: Option<&Value>| parent.and(shape?.field(key)?.zero.as_ref());
    let mut step = |key: &str, a: Option<&Value>, b: Option<&Value>| {
        let under = match shape {
            Some(shape) => shape.at(key).unwrap_or(&Shape::Any),
            None => &Shape::Any,
        };
        let a = a.or_else(|| zero(key, old));
        let b = b.or_else(|| zero(key, new));
        record(|| of_field(key), a, b, under, below);
    };
    for (key, value) in left.into_iter().flatten() {
        step(key, Some(value), right.and_then(|r| r.get(key)));
    }
    for (key, value) in right.into_iter().flatten() {
        if left.is_none_or(|l| !l.contains_key(key)) {
            step(key, None, Some(value));
        }
    }
    true
}

fn record(
    element: impl FnOnce() -> String,
    old: Option<&Value>,
    new: Option<&Value>,
    shape: &Shape,
    into: &mut Diff,
) {
    let mut below = Diff::default();
    let fate = node(old, new, shape, &mut below);
    let changed = fate.changed || !below.changed.is_empty();
    let removed = fate.removed || !below.removed.is_empty();
    if changed || removed {
        let element = element();
        if removed {
            into.removed.put(element.clone(), fate.removed, below.removed);
        }
        if changed {
            into.changed.put(element, fate.changed, below.changed);
        }
    }
}

/// The items of a list by their elements, equal ones together.
fn index<'a>(list: &ListShape, items: &'a [Value]) -> Vec<(String, Vec<&'a Value>)> {
    let mut all: Vec<(String, Vec<&Value>)> = Vec::with_capacity(items.len());
    for item in items {
        if let Ok(element) = of_item(list, item) {
            all.push((element, vec![item]));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1.append(&mut later.1);
        }
        same
    });
    all
}

fn visit_list(list: &ListShape, old: &[Value], new: &[Value], below: &mut Diff) {
    let (left, right) = (index(list, old), index(list, new));
    let find = |side: &[(String, Vec<&Value>)], element: &str| {
        side.binary_search_by(|(e, _)| e.as_str().cmp(element)).ok()
    };
    for (element, were) in &left {
        let are = find(&right, element).and_then(|at| right.get(at)).map(|(_, v)| v.as_slice());
        item(list, element, were, are.unwrap_or_default(), below);
    }
    for (element, are) in &right {
        if find(&left, element).is_none() {
            item(list, element, &[], are, below);
        }
    }
}

/// One item, or several that share an element: those are compared as a whole.
fn item(list: &ListShape, element: &str, old: &[&Value], new: &[&Value], below: &mut Diff) {
    let name = || element.to_owned();
    match (old, new) {
        ([_, _, ..], [_, _, ..]) => {
            if old != new {
                below.changed.put(name(), true, FieldSet::new());
            }
        }
        ([_, _, ..], _) => {
            if let Some(one) = new.first() {
                record(name, None, Some(one), &list.item, below);
            }
            below.removed.put(name(), true, FieldSet::new());
        }
        (_, [_, _, ..]) => {
            if let Some(one) = old.first() {
                record(name, Some(one), None, &list.item, below);
            }
            below.changed.put(name(), true, FieldSet::new());
        }
        _ => record(name, old.first().copied(), new.first().copied(), &list.item, below),
    }
}
