//! Whether a configuration fits the shape, in the words of Kubernetes.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::fieldset::{Element, of_item};
use crate::shape::{ListKind, ListShape, MapShape, Scalar, Shape};

/// All that does not fit, as one text.
pub fn validate(config: &Value, shape: &Shape) -> Result<(), String> {
    let mut problems = Vec::new();
    node(config, shape, &mut String::new(), &mut problems);
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn report(path: &str, what: impl std::fmt::Display, problems: &mut Vec<String>) {
    problems.push(if path.is_empty() { what.to_string() } else { format!("{path}: {what}") });
}

fn node(value: &Value, shape: &Shape, path: &mut String, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (shape.resolve(), value) {
        (Shape::Map(map), Value::Object(entries)) => fields(entries, map, path, problems),
        (Shape::Map(_), other) => {
            report(path, format_args!("expected map, got &{{{}}}", go(other)), problems);
        }
        (Shape::List(list), Value::Array(all)) => items(all, list, path, problems),
        (Shape::List(_), other) => {
            report(path, format_args!("expected list, got &{{{}}}", go(other)), problems);
        }
        (Shape::Scalar(scalar), value) => {
            if let Some(problem) = misfit(*scalar, value) {
                report(path, problem, problems);
            }
        }
        _ => {}
    }
}

fn fields(
    entries: &Map<String, Value>,
    shape: &MapShape,
    path: &mut String,
    problems: &mut Vec<String>,
) {
    let length = path.len();
    for (key, value) in entries {
        path.push('.');
        path.push_str(key);
        match shape.at(key) {
            Some(under) => node(value, under, path, problems),
            None => report(path, "field not declared in schema", problems),
        }
        path.truncate(length);
    }
}

fn items(all: &[Value], list: &ListShape, path: &mut String, problems: &mut Vec<String>) {
    let length = path.len();
    let mut seen: HashSet<String> = HashSet::new();
    for (at, item) in all.iter().enumerate() {
        let step = if list.kind == ListKind::Atomic {
            format!("[{at}]")
        } else {
            let element = match of_item(list, item) {
                Ok(element) => element,
                Err(why) => {
                    report(path, format_args!("element {at}: {why}"), problems);
                    return;
                }
            };
            let step = Element::parse(&element).to_string();
            if !seen.insert(element) {
                report(path, format_args!("duplicate entries for key {step}"), problems);
            }
            step
        };
        path.push_str(&step);
        node(item, &list.item, path, problems);
        path.truncate(length);
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::Text | Scalar::Time => value.is_string(),
        Scalar::Number => value.is_number(),
        Scalar::Flag => value.is_boolean(),
        Scalar::Any => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Text | Scalar::Time => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
        }
        Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::Flag => format!("expected boolean, got &{{{}}}", go(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go(value)),
    })
}

/// A value as Go prints it.
fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(k, v)| format!("{k}:{}", go(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as Go writes it in source.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(k, v)| format!("{k:?}:{}", go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
