//! The built-in kinds: one table of facts about the fields of Kubernetes 1.34, read once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{Field, ListKind, ListShape, MapShape, Patch, Scalar, Shape};

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("builtin.txt")));

const OBJECT_META: &str = "meta.v1.ObjectMeta";

struct Table {
    shapes: Vec<Shape>,
    /// Group (`core` for the unnamed one), then kind.
    kinds: HashMap<&'static str, HashMap<&'static str, u16>>,
    object_meta: u16,
}

/// The shape of a kind, if the table has it.
pub(super) fn kind(group: &str, kind: &str) -> Option<Shape> {
    let group = if group.is_empty() { "core" } else { group };
    TABLE.kinds.get(group)?.get(kind).map(|index| Shape::Named(*index))
}

/// The shape of `metadata`.
pub(super) fn object_meta() -> Shape {
    Shape::Named(TABLE.object_meta)
}

/// A type by its place in the table.
pub(super) fn named(index: u16) -> &'static Shape {
    TABLE.shapes.get(usize::from(index)).unwrap_or(&Shape::Any)
}

// === impl Table ===

impl Table {
    fn read(text: &'static str) -> Self {
        let rows = || text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
        let names: HashMap<&'static str, u16> = rows()
            .filter(|row| !row.starts_with("kind "))
            .filter_map(|row| row.split(' ').nth(1))
            .zip(0u16..)
            .collect();
        let mut shapes = Vec::with_capacity(names.len());
        let mut kinds: HashMap<&'static str, HashMap<&'static str, u16>> = HashMap::new();
        for row in rows() {
            let mut words = row.split(' ');
            match (words.next(), words.next()) {
                (Some("kind"), Some(group)) => {
                    if let (Some(kind), Some(name)) = (words.next(), words.next())
                        && let Some(index) = names.get(name)
                    {
                        kinds.entry(group).or_default().insert(kind, *index);
                    }
                }
                (Some("alias"), _) => shapes.push(shape(words.next().unwrap_or("*"), &names).0),
                _ => shapes.push(struct_of(words, &names)),
            }
        }
        let object_meta = names.get(OBJECT_META).copied().unwrap_or(u16::MAX);
        Self { shapes, kinds, object_meta }
    }
}

fn struct_of<'a>(words: impl Iterator<Item = &'a str>, names: &HashMap<&str, u16>) -> Shape {
    let mut atomic = false;
    let mut fields = Vec::new();
    for word in words {
        match word.split_once(':') {
            Some((name, rest)) => fields.push(field(name, rest, names)),
            None => atomic = word == "{a}",
        }
    }
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    Shape::Map(Arc::new(MapShape { fields, rest: None, atomic }))
}

fn field(name: &str, text: &str, names: &HashMap<&str, u16>) -> Field {
    let (shape, mut flags) = shape(text, names);
    let mut field = Field::new(name, shape);
    if let Some(rest) = flags.strip_prefix('!') {
        field.zero = Some(zero(&field.shape));
        flags = rest;
    }
    if let Some(rest) = flags.strip_prefix('?') {
        field.zero = Some(Value::Null);
        flags = rest;
    }
    if let Some(rest) = flags.strip_prefix('=') {
        let end = rest.find('~').unwrap_or(rest.len());
        field.default = serde_json::from_str(&rest[..end]).ok();
        flags = &rest[end..];
    }
    if let Some(mut rest) = flags.strip_prefix('~') {
        let mut patch = Patch::default();
        if let Some(after) = rest.strip_prefix('r') {
            patch.retain_keys = true;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('m') {
            patch.merge = true;
            patch.key = (!after.is_empty()).then(|| after.into());
        }
        field.patch = patch;
    }
    field
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(Scalar::Text) => json!(""),
        Shape::Scalar(Scalar::Number) => json!(0),
        Shape::Scalar(Scalar::Flag) => json!(false),
        Shape::Named(_) => json!({}),
        _ => Value::Null,
    }
}

/// The shape at the start of `text`, and what follows it.
fn shape<'a>(text: &'a str, names: &HashMap<&str, u16>) -> (Shape, &'a str) {
    if let Some(rest) = text.strip_prefix('@') {
        let end = rest.find(['!', '?', '=', '~']).unwrap_or(rest.len());
        let known = names.get(&rest[..end]);
        return (known.map_or(Shape::Any, |index| Shape::Named(*index)), &rest[end..]);
    }
    if let Some(rest) = text.strip_prefix("{}") {
        let (values, rest) = shape(rest, names);
        return (map(values, false), rest);
    }
    if let Some(rest) = text.strip_prefix("{a}") {
        let (values, rest) = shape(rest, names);
        return match values {
            Shape::Named(_) => (Shape::Atomic, rest),
            values => (map(values, true), rest),
        };
    }
    if let Some((keys, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        let kind = match keys {
            "" => ListKind::Atomic,
            "=" => ListKind::Set,
            keys => ListKind::by(keys.split(',')),
        };
        let (item, rest) = shape(rest, names);
        return (Shape::List(Arc::new(ListShape { kind, item })), rest);
    }
    let shape = match text.as_bytes().first() {
        Some(b's') => Shape::Scalar(Scalar::Text),
        Some(b't') => Shape::Scalar(Scalar::Time),
        Some(b'n') => Shape::Scalar(Scalar::Number),
        Some(b'b') => Shape::Scalar(Scalar::Flag),
        Some(b'u') => Shape::Scalar(Scalar::Any),
        Some(b'a') => Shape::Atomic,
        _ => Shape::Any,
    };
    (shape, text.get(1..).unwrap_or(""))
}

fn map(values: Shape, atomic: bool) -> Shape {
    Shape::Map(Arc::new(MapShape { fields: Vec::new(), rest: Some(values), atomic }))
}
