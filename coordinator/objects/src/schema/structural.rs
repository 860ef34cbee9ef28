//! What makes a schema structural: every field has a type outside of `allOf` and its like, so that
//! pruning and defaulting know what they meet.

use super::{path, pattern, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Map, Value, json};

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks a whole schema at the field `at`; errors come sorted.
pub fn check(schema: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, at, &mut errors);
    complete(schema, schema, at, at, false, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

/// Text of a member, empty if absent.
fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn branches<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn int_or_string(branch: Option<&Value>) -> bool {
    branch == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn forbidden(errors: &mut Vec<FieldError>, at: &str, name: &str, why: &str) {
    errors.push(FieldError::new(Kind::Forbidden, path::child(at, name), why));
}

fn required(errors: &mut Vec<FieldError>, at: &str, name: &str, why: &str) {
    errors.push(FieldError::new(Kind::Required, path::child(at, name), why));
}

fn invalid(errors: &mut Vec<FieldError>, at: &str, name: &str, bad: &Value, why: &str) {
    errors.push(print::error(Kind::Invalid, path::child(at, name), bad, why));
}

fn invariants(schema: &Value, level: Level, at: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let either = flag(schema, "x-kubernetes-int-or-string");
    let items = schema.get("items").filter(|i| i.is_object());
    if kind == "array" && items.is_none() {
        required(errors, at, "items", "must be specified");
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &path::child(at, "items"), errors);
    }
    for (name, field) in properties(schema) {
        invariants(field, Level::Field, &path::key(&path::child(at, "properties"), name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        if level == Level::Root {
            forbidden(errors, at, "additionalProperties", "must not be used at the root");
        }
        if additional.is_object() {
            let at = path::child(at, "additionalProperties");
            invariants(additional, Level::Field, &at, errors);
        }
        if embedded {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            forbidden(errors, at, "additionalProperties", why);
        }
    }
    if either {
        for (set, name) in [
            (preserve, "x-kubernetes-preserve-unknown-fields"),
            (embedded, "x-kubernetes-embedded-resource"),
        ] {
            if set {
                let why = "must be false if x-kubernetes-int-or-string is true";
                invalid(errors, at, name, &json!(true), why);
            }
        }
    }
    let first = schema.get("allOf").and_then(|all| all.get(0));
    let skip_any = int_or_string(schema.get("anyOf"));
    let skip_first = int_or_string(first.and_then(|first| first.get("anyOf")));
    value_validation(schema, skip_any, skip_first, level, at, errors);
    type_is_there(kind, level, embedded, either || preserve, at, errors);
    metadata(schema, level, embedded, at, errors);
    if embedded && !preserve && properties(schema).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        required(errors, at, "properties", why);
    }
}

fn type_is_there(
    kind: &str,
    level: Level,
    embedded: bool,
    untyped: bool,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            required(errors, at, "type", why);
        } else {
            invalid(errors, at, "type", &json!(kind), why);
        }
    } else if kind.is_empty() && !untyped {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        required(errors, at, "type", why);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        invalid(errors, at, "type", &json!(kind), "must be object at the root");
    }
}

/// The schema of metadata may only limit the name.
fn metadata(schema: &Value, level: Level, embedded: bool, at: &str, errors: &mut Vec<FieldError>) {
    let resource = level == Level::Root || embedded;
    let at = path::child(at, "properties");
    for name in ["kind", "apiVersion"] {
        if let Some(field) = schema.get("properties").and_then(|p| p.get(name))
            && resource
            && text(field, "type") != "string"
        {
            let kind = json!(text(field, "type"));
            invalid(errors, &path::key(&at, name), "type", &kind, "must be string");
        }
    }
    let Some(meta) = schema.get("properties").and_then(|p| p.get("metadata")) else { return };
    let at = path::key(&at, "metadata");
    if resource && text(meta, "type") != "object" {
        invalid(errors, &at, "type", &json!(text(meta, "type")), "must be object");
    }
    if level != Level::Root {
        return;
    }
    let only_names = properties(meta).all(|(name, _)| name == "name" || name == "generateName");
    let only_harmless = meta.as_object().is_some_and(|m| {
        m.iter().all(|(name, value)| {
            matches!(name.as_str(), "type" | "properties" | "default") || empty(value)
        })
    });
    if !only_names || !only_harmless {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::new(Kind::Forbidden, at, why));
    }
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn value_validation(
    schema: &Value,
    skip_any: bool,
    skip_first_any: bool,
    level: Level,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any {
        for (i, branch) in branches(schema, "anyOf") {
            nested(branch, false, level, &path::index(&path::child(at, "anyOf"), i), errors);
        }
    }
    for (i, branch) in branches(schema, "allOf") {
        let skip = skip_first_any && i == 0;
        nested(branch, skip, level, &path::index(&path::child(at, "allOf"), i), errors);
    }
    for (i, branch) in branches(schema, "oneOf") {
        nested(branch, false, level, &path::index(&path::child(at, "oneOf"), i), errors);
    }
    if let Some(not) = schema.get("not") {
        nested(not, false, level, &path::child(at, "not"), errors);
    }
    let source = text(schema, "pattern");
    if let Err(why) = pattern::compile(source) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        invalid(errors, at, "pattern", &json!(source), &why);
    }
}

/// A branch may limit values, but not say what there is.
fn nested(schema: &Value, skip_any: bool, level: Level, at: &str, errors: &mut Vec<FieldError>) {
    value_validation(schema, skip_any, false, level, at, errors);
    if let Some(items) = schema.get("items").filter(|i| i.is_object()) {
        nested(items, false, level, &path::child(at, "items"), errors);
    }
    for (name, field) in properties(schema) {
        let at = path::key(&path::child(at, "properties"), name);
        nested(field, false, Level::Field, &at, errors);
    }
    let none = Map::new();
    let members = schema.as_object().unwrap_or(&none);
    let is_set = |name: &str| members.get(name).is_some_and(|v| !empty(v));
    let is_there = |name: &str| members.get(name).is_some_and(|v| !v.is_null());
    for (there, name, why) in [
        (is_set("type"), "type", "must be empty to be structural"),
        (
            is_there("additionalProperties"),
            "additionalProperties",
            "must be undefined to be structural",
        ),
        (is_there("default"), "default", "must be undefined to be structural"),
        (is_set("title"), "title", "must be empty to be structural"),
        (is_set("description"), "description", "must be empty to be structural"),
        (is_set("nullable"), "nullable", "must be false to be structural"),
        (
            is_set("x-kubernetes-preserve-unknown-fields"),
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            is_set("x-kubernetes-embedded-resource"),
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            is_set("x-kubernetes-int-or-string"),
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            is_set("x-kubernetes-list-map-keys"),
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            is_there("x-kubernetes-list-type"),
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            is_there("x-kubernetes-map-type"),
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
        (
            is_set("x-kubernetes-validations"),
            "x-kubernetes-validations",
            "must be empty to be structural",
        ),
    ] {
        if there {
            forbidden(errors, at, name, why);
        }
    }
    if properties(schema).any(|(name, _)| name == "metadata") {
        let at = path::key(&path::child(at, "properties"), "metadata");
        let why = "must not be specified in a nested context";
        errors.push(FieldError::new(Kind::Forbidden, at, why));
    }
}

/// What a branch limits must exist outside of it.
fn complete(
    branch: &Value,
    spine: &Value,
    spine_at: &str,
    at: &str,
    inside: bool,
    errors: &mut Vec<FieldError>,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        for (i, below) in branches(branch, name) {
            let at = path::index(&path::child(at, name), i);
            complete(below, spine, spine_at, &at, true, errors);
        }
    }
    if let Some(not) = branch.get("not") {
        complete(not, spine, spine_at, &path::child(at, "not"), true, errors);
    }
    if !inside {
        return;
    }
    let mut pair = |below: &Value, spine: Option<&Value>, spine_at: String, at: String| match spine
    {
        Some(spine) => complete(below, spine, &spine_at, &at, true, errors),
        None => {
            let why = format!("because it is defined in {at}");
            errors.push(FieldError::new(Kind::Required, spine_at, why));
        }
    };
    if let Some(items) = branch.get("items").filter(|i| i.is_object()) {
        let spine = spine.get("items").filter(|i| i.is_object());
        pair(items, spine, path::child(spine_at, "items"), path::child(at, "items"));
    }
    for (name, field) in properties(branch) {
        let spine = spine.get("properties").and_then(|p| p.get(name));
        let below = |at: &str| path::key(&path::child(at, "properties"), name);
        pair(field, spine, below(spine_at), below(at));
    }
}
