//! JSON as CEL values, typed by the schema as Kubernetes types them.

use super::program::{self, Program};
use crate::schema::node::Node;
use base64::Engine;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::Map;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// A value without a schema.
pub fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(n) => match n.as_i64() {
            Some(int) => Cel::Int(int),
            None => Cel::Float(n.as_f64().unwrap_or(0.0)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => object(map.iter().map(|(name, value)| (name.clone(), plain(value)))),
    }
}

/// A value of a schema: numbers, times and field names become what rules expect.
pub fn typed(value: &Value, node: &Node) -> Cel {
    match value {
        Value::Number(n) => match (node.type_name.as_str(), n.as_i64()) {
            ("number", _) => Cel::Float(n.as_f64().unwrap_or(0.0)),
            ("integer", None) => Cel::Int(n.as_f64().unwrap_or(0.0) as i64),
            _ => plain(value),
        },
        Value::String(text) => string(text, node),
        Value::Array(items) => Cel::List(Arc::new(match &node.items {
            Some(below) => items.iter().map(|item| typed(item, below)).collect(),
            None => items.iter().map(plain).collect(),
        })),
        Value::Object(map) => match node.values() {
            Some(values) => object(map.iter().map(|(name, v)| (name.clone(), typed(v, values)))),
            None => object(map.iter().filter_map(|(name, value)| {
                let below = node.properties.get(name);
                Some((escape(name)?, below.map_or_else(|| plain(value), |n| typed(value, n))))
            })),
        },
        other => plain(other),
    }
}

/// How many nodes a value has, which is what copying it costs.
pub fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// The name of a field as rules spell it, if they can.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c)) {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (escaped, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            _ => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        out.push_str(escaped);
        rest = &rest[length..];
    }
    Some(out)
}

/// A map of CEL values.
pub fn object(fields: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<_, _> = fields.map(|(name, value)| (program::key(&name), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

fn string(text: &str, node: &Node) -> Cel {
    static TIMESTAMP: LazyLock<Option<Program>> =
        LazyLock::new(|| Program::compile("timestamp(self)").ok());
    static DURATION: LazyLock<Option<Program>> =
        LazyLock::new(|| Program::compile("duration(self)").ok());
    let raw = || Cel::String(Arc::new(text.to_owned()));
    let read = |program: &Option<Program>, text: String| {
        let mut scope = program::scope();
        scope.add_variable_from_value("self", Cel::String(Arc::new(text)));
        let mut budget = program::PER_CALL;
        program.as_ref().and_then(|p| p.run(&scope, 1, &mut budget).ok()).unwrap_or_else(raw)
    };
    match node.format.as_ref().map(|f| f.name.as_str()) {
        Some("date-time") => read(&TIMESTAMP, text.to_owned()),
        Some("date") => read(&TIMESTAMP, format!("{text}T00:00:00Z")),
        Some("duration") => read(&DURATION, text.to_owned()),
        Some("byte") => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Cel::Bytes(Arc::new(bytes)),
            Err(_) => raw(),
        },
        _ => raw(),
    }
}
