//! Shapes: how a value merges, field by field.
//!
//! A [`Shape`] says of every part of an object whether it is a leaf, a struct, a granular or an
//! atomic map, or a list that is atomic, a set, or keyed by some fields of its items. Server-side
//! apply, managed fields and strategic merge all walk an object beside its shape.
//!
//! Custom resources get theirs from the CRD ([`Shape::from_openapi`]), built-ins from one table of
//! facts ([`Shape::builtin`]).

use std::sync::Arc;

use serde_json::{Map, Value};

mod builtin;
mod complete;
#[cfg(test)]
mod tests;

/// How a value merges. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Anything: objects are granular, lists atomic.
    Any,
    /// Anything, replaced as a whole.
    Atomic,
    /// A value without parts.
    Scalar(Scalar),
    /// A value with named fields.
    Map(Arc<MapShape>),
    /// A list of values.
    List(Arc<ListShape>),
    /// A built-in type, by its place in the table.
    Named(u16),
}

/// What a leaf may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    Text,
    /// A time, as text; null when unset.
    Time,
    /// An integer or a float.
    Number,
    /// True or false.
    Flag,
    /// Any of these.
    Any,
}

/// A struct (`fields`), a map (`rest`) or both.
#[derive(Debug, Default)]
pub struct MapShape {
    /// Named fields, sorted by name.
    pub fields: Vec<Field>,
    /// The shape of every other key; none when no other is known.
    pub rest: Option<Shape>,
    /// Replaced as a whole.
    pub atomic: bool,
}

/// A named field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The field's name in JSON.
    pub name: Box<str>,
    /// How its value merges.
    pub shape: Shape,
    /// What stands there when the object says nothing, for fields that are always present.
    pub zero: Option<Value>,
    /// The default, which completes the keys of list items.
    pub default: Option<Value>,
    /// How a strategic merge patch treats it.
    pub patch: Patch,
}

/// The strategic merge rules of one field.
#[derive(Debug, Clone, Default)]
pub struct Patch {
    /// Lists merge by key (or unite, when there is none).
    pub merge: bool,
    /// `$retainKeys` is honoured.
    pub retain_keys: bool,
    /// The merge key.
    pub key: Option<Box<str>>,
}

/// How a list merges.
#[derive(Debug)]
pub struct ListShape {
    /// What identifies an item.
    pub kind: ListKind,
    /// How an item merges.
    pub item: Shape,
}

/// What identifies an item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Nothing: the list is replaced as a whole.
    Atomic,
    /// Items are told apart by their value.
    Set,
    /// The values of these fields, sorted by name.
    By(Vec<Box<str>>),
}

// === impl Shape ===

impl Shape {
    /// What Kubernetes deduces without a schema: objects granular, lists atomic.
    pub fn any() -> Self {
        Self::Any
    }

    /// The shape of a built-in kind. An unknown kind is an object with metadata and anything else.
    pub fn builtin(group: &str, kind: &str) -> Self {
        builtin::kind(group, kind).unwrap_or_else(|| Self::root(Vec::new(), Some(Self::Any)))
    }

    /// Whether the table knows this kind.
    pub fn is_builtin(group: &str, kind: &str) -> bool {
        builtin::kind(group, kind).is_some()
    }

    /// The shape of custom resources with this structural schema (`openAPIV3Schema`).
    pub fn from_openapi(schema: &Value) -> Self {
        let keep = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.map(|p| fields_of(p, keep)).unwrap_or_default();
        Self::root(fields, rest_of(schema, keep))
    }

    /// An object of the API: `apiVersion`, `kind` and `metadata` beside its own fields.
    fn root(mut fields: Vec<Field>, rest: Option<Self>) -> Self {
        fields.retain(|f| !matches!(&*f.name, "apiVersion" | "kind" | "metadata"));
        fields.push(Field::new("apiVersion", Self::Scalar(Scalar::Text)));
        fields.push(Field::new("kind", Self::Scalar(Scalar::Text)));
        fields.push(Field::new("metadata", builtin::object_meta()));
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self::Map(Arc::new(MapShape { fields, rest, atomic: false }))
    }

    /// This shape with names looked up: never [`Shape::Named`].
    pub fn resolve(&self) -> &Self {
        match self {
            Self::Named(index) => builtin::named(*index),
            other => other,
        }
    }

    /// The struct or map behind this shape.
    pub fn as_map(&self) -> Option<&MapShape> {
        match self.resolve() {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The list behind this shape.
    pub fn as_list(&self) -> Option<&ListShape> {
        match self.resolve() {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_schema(schema: &Value, keep: bool) -> Self {
        let keep = keep || flag(schema, "x-kubernetes-preserve-unknown-fields");
        match schema.get("type").and_then(Value::as_str).unwrap_or("") {
            "object" => Self::object(schema, keep),
            "array" => Self::list(schema, keep),
            "string" => Self::Scalar(Scalar::Text),
            "integer" | "number" => Self::Scalar(Scalar::Number),
            "boolean" => Self::Scalar(Scalar::Flag),
            _ if schema.get("properties").is_some() => Self::object(schema, keep),
            _ => Self::Any,
        }
    }

    fn object(schema: &Value, keep: bool) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.map(|p| fields_of(p, keep)).unwrap_or_default();
        let rest = rest_of(schema, keep);
        if flag(schema, "x-kubernetes-embedded-resource") {
            return Self::root(fields, rest);
        }
        let atomic = text(schema, "x-kubernetes-map-type") == "atomic";
        Self::Map(Arc::new(MapShape { fields, rest, atomic }))
    }

    fn list(schema: &Value, keep: bool) -> Self {
        let item = schema.get("items").map_or(Self::Atomic, |items| Self::of_schema(items, keep));
        let kind = match text(schema, "x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let names = keys.into_iter().flatten().filter_map(Value::as_str);
                ListKind::by(names)
            }
            _ => ListKind::Atomic,
        };
        Self::List(Arc::new(ListShape { kind, item }))
    }
}

fn fields_of(properties: &Map<String, Value>, keep: bool) -> Vec<Field> {
    let mut fields: Vec<Field> = properties
        .iter()
        .map(|(name, schema)| Field {
            default: schema.get("default").cloned(),
            ..Field::new(name, Shape::of_schema(schema, keep))
        })
        .collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    fields
}

fn rest_of(schema: &Value, keep: bool) -> Option<Shape> {
    match schema.get("additionalProperties") {
        None | Some(Value::Null) => {
            let named = schema.get("properties").and_then(Value::as_object);
            (keep || named.is_none_or(Map::is_empty)).then_some(Shape::Any)
        }
        Some(Value::Bool(allowed)) => allowed.then_some(Shape::Any),
        Some(values) => Some(Shape::of_schema(values, keep)),
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or("")
}

// === impl MapShape ===

impl MapShape {
    /// The named field, if this is one.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|f| (*f.name).cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// The shape of the value at this key; none when the key is not declared.
    pub fn at(&self, name: &str) -> Option<&Shape> {
        self.field(name).map(|f| &f.shape).or(self.rest.as_ref())
    }
}

// === impl Field ===

impl Field {
    /// A field without defaults.
    pub fn new(name: &str, shape: Shape) -> Self {
        Self { name: name.into(), shape, zero: None, default: None, patch: Patch::default() }
    }
}

// === impl ListKind ===

impl ListKind {
    /// Items told apart by these fields.
    pub fn by<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let mut keys: Vec<Box<str>> = keys.into_iter().map(Into::into).collect();
        keys.sort();
        Self::By(keys)
    }
}

// === impl ListShape ===

impl ListShape {
    /// The default of a key field of the items.
    pub fn key_default(&self, key: &str) -> Option<&Value> {
        let field = self.item.as_map()?.field(key)?;
        field.default.as_ref().or(field.zero.as_ref())
    }
}
