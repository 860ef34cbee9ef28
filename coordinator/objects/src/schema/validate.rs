//! Checks of a value against the schema, in the order and the words of Kubernetes.
//!
//! Errors of a value that an update leaves unchanged are dropped ("ratcheting"), so that a tightened
//! schema does not lock existing objects.

mod scalar;

use super::node::{Additional, Node};
use super::{path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use scalar::{check_number, check_string, is_json_integer};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What the checks of one value found. `matches` counts the checks that ran: of the failing branches
/// of an `anyOf` or `oneOf`, the one with most of them explains the failure.
#[derive(Debug, Default)]
struct Outcome {
    errors: Vec<Problem>,
    matches: usize,
}

/// One error, with the message that makes it unique.
#[derive(Debug)]
struct Problem {
    error: FieldError,
    message: String,
}

/// An old value that corresponds to the one being checked, and the schema that relates them.
#[derive(Clone, Copy)]
struct Old<'a> {
    value: &'a Value,
    spine: &'a Node,
}

/// Checks `value`; errors are below `base` (empty for a whole object). `old` is there on updates.
pub fn check(node: &Node, value: &Value, old: Option<&Value>, base: &str) -> Vec<FieldError> {
    let old = old.map(|value| Old { value, spine: node });
    let outcome = ratcheted(node, value, old, "");
    let mut seen = HashSet::new();
    let mut errors = Vec::new();
    for problem in outcome.errors {
        if seen.insert(problem.message) {
            let mut error = problem.error;
            error.field = match (base.is_empty(), error.field.is_empty()) {
                (true, true) => path::NO_FIELD.to_owned(),
                (_, true) => base.to_owned(),
                _ => path::child(base, &error.field),
            };
            errors.push(error);
        }
    }
    errors
}

/// Whether two corresponding values are the same, lists of type `map` compared by key.
pub fn unchanged(spine: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old)) => {
            if new.len() != old.len() {
                return false;
            }
            let keyed = spine.list_type.as_deref() == Some("map");
            let Some(items) = spine.items.as_deref().filter(|_| keyed) else { return new == old };
            new.iter().all(|item| {
                spine.correlated_item(item, old).is_some_and(|o| unchanged(items, item, o))
            })
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| match (spine.field(key), old.get(key)) {
                    (Some(field), Some(old)) => unchanged(field, value, old),
                    _ => false,
                })
        }
        (new, old) => new == old,
    }
}

fn ratcheted(node: &Node, value: &Value, old: Option<Old<'_>>, at: &str) -> Outcome {
    let mut outcome = run(node, value, old, at);
    if !outcome.errors.is_empty() && old.is_some_and(|o| unchanged(o.spine, value, o.value)) {
        outcome.errors.clear();
    }
    outcome
}

fn run(node: &Node, value: &Value, old: Option<Old<'_>>, at: &str) -> Outcome {
    let mut out = Outcome::default();
    if value.is_null() {
        if node.typed() && !node.nullable {
            out.type_error(at, node.types(), "null");
        } else {
            out.matches += 1;
        }
        check_allowed(node, value, at, &mut out);
        return out;
    }
    if node.typed() || node.format.is_some() {
        check_type(node, value, at, &mut out);
        out.matches += 1;
    }
    check_branches(node, value, old, at, &mut out);
    out.matches += 1;
    match value {
        Value::String(text) => {
            check_string(node, text, at, &mut out);
            out.matches += 1;
            if let Some(format) = &node.format {
                if !format.holds(text) {
                    out.type_error(at, &format.name, text);
                }
                out.matches += 1;
            }
        }
        Value::Number(_) => {
            check_number(node, value, at, &mut out);
            out.matches += 2;
        }
        Value::Array(items) => {
            check_list(node, items, old, at, &mut out);
            out.matches += 2;
        }
        _ => {}
    }
    check_allowed(node, value, at, &mut out);
    out.matches += 1;
    if let Value::Object(_) = value {
        check_object(node, value, old, at, &mut out);
        out.matches += 1;
    }
    out.matches += 1;
    out
}

fn check_type(node: &Node, value: &Value, at: &str, out: &mut Outcome) {
    let (actual, width) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Number(n) if n.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Array(_) => ("array", ""),
        _ => ("object", ""),
    };
    let whole = actual == "number"
        && node.accepts("integer")
        && value.as_f64().is_some_and(is_json_integer);
    let fits = node.accepts(actual) || whole || (actual == "integer" && node.accepts("number"));
    if let Some(format) = &node.format {
        let sequence = value.is_string() || value.is_array();
        if !sequence && !fits {
            return out.type_error(at, &format.name, width);
        }
        if sequence && !node.accepts("number") && !node.accepts("integer") {
            out.matches += 1;
            return;
        }
    }
    if fits {
        out.matches += 1;
    } else {
        out.type_error(at, node.types(), actual);
    }
}

fn check_branches(node: &Node, value: &Value, old: Option<Old<'_>>, at: &str, out: &mut Outcome) {
    let limits = &node.limits;
    if !limits.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut valid = false;
        for branch in &limits.any_of {
            let result = run(branch, value, old, at);
            if result.errors.is_empty() {
                valid = true;
                best = Some(result);
                break;
            }
            if best.as_ref().is_none_or(|b| result.matches > b.matches) {
                best = Some(result);
            }
        }
        if !valid {
            out.composite(format!(
                "{} must validate at least one schema (anyOf)",
                print::quote(at)
            ));
        }
        if let Some(best) = best {
            out.merge(best);
        }
    }
    if !limits.one_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for branch in &limits.one_of {
            let result = run(branch, value, old, at);
            if result.errors.is_empty() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|b| result.matches > b.matches) {
                best = Some(result);
            }
        }
        if valid == 1 {
            first.into_iter().for_each(|first| out.merge(first));
        } else {
            let found = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            out.composite(format!(
                "{} must validate one and only one schema (oneOf). {found}",
                print::quote(at)
            ));
            best.into_iter().for_each(|best| out.merge(best));
        }
    }
    if !limits.all_of.is_empty() {
        let mut valid = 0;
        for branch in &limits.all_of {
            let result = run(branch, value, old, at);
            valid += usize::from(result.errors.is_empty());
            out.merge(result);
        }
        if valid != limits.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.composite(format!(
                "{} must validate all the schemas (allOf){none}",
                print::quote(at)
            ));
        }
    }
    if let Some(not) = &limits.not
        && run(not, value, old, at).errors.is_empty()
    {
        out.composite(format!("{} must not validate the schema (not)", print::quote(at)));
    }
    out.matches += 1;
}

fn check_list(node: &Node, items: &[Value], old: Option<Old<'_>>, at: &str, out: &mut Outcome) {
    if let Some(below) = &node.items {
        for (i, item) in items.iter().enumerate() {
            let at = path::index(at, i);
            out.merge(ratcheted(below, item, old.and_then(|o| o.item(item)), &at));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let limits = &node.limits;
    if let Some(min) = limits.min_items.filter(|min| size < *min) {
        out.invalid(at, &json!(size), format!("{at} in body should have at least {min} items"));
    }
    if let Some(max) = limits.max_items.filter(|max| size > *max) {
        let message = format!("{at} in body should have at most {max} items");
        out.push(too_many(at, size, max), message);
    }
    if limits.unique_items {
        let mut seen = HashSet::new();
        if !items.iter().all(|item| seen.insert(print::json(item))) {
            out.invalid(at, &json!(""), format!("{at} in body shouldn't contain duplicates"));
        }
    }
}

fn too_many(at: &str, size: i64, max: i64) -> FieldError {
    let items = if max == 1 { "item" } else { "items" };
    let detail = if max < 0 {
        "has too many items".to_owned()
    } else {
        format!("must have at most {max} {items}")
    };
    FieldError::printed(Kind::TooMany, at, size.to_string(), detail)
}

fn check_allowed(node: &Node, value: &Value, at: &str, out: &mut Outcome) {
    let allowed = &node.limits.allowed;
    if allowed.is_empty() {
        return;
    }
    let same = |candidate: &Value| match (candidate, value) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (candidate, value) => candidate == value,
    };
    if allowed.iter().any(same) {
        return;
    }
    let names: Vec<String> =
        allowed.iter().map(|v| v.as_str().map_or_else(|| print::json(v), str::to_owned)).collect();
    let message = format!("{at} in body should be one of {names:?}");
    out.push(print::unsupported(at, value, &names), message);
}

fn check_object(node: &Node, value: &Value, old: Option<Old<'_>>, at: &str, out: &mut Outcome) {
    let Value::Object(map) = value else { return };
    let limits = &node.limits;
    let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(min) = limits.min_properties.filter(|min| size < *min) {
        let message = format!("{at} in body should have at least {min} properties");
        out.invalid(at, &json!(size), message);
    }
    if let Some(max) = limits.max_properties.filter(|max| size > *max) {
        let message = format!("{at} in body should have at most {max} properties");
        out.push(too_many(at, size, max), message);
    }
    for (key, value) in map {
        if node.properties.contains_key(key) {
            continue;
        }
        match &node.additional {
            Some(Additional::Any(false)) => {
                let message = format!("{at}.{key} in body is a forbidden property");
                out.invalid(at, &json!(key), message);
            }
            Some(Additional::Schema(values)) => {
                let at = format!("{at}.{key}");
                out.merge(ratcheted(values, value, old.and_then(|o| o.field(key)), &at));
            }
            _ => {}
        }
    }
    for (key, field) in &node.properties {
        let Some(value) = map.get(key) else { continue };
        // apiVersion and kind of the object itself are the same in both by construction
        let type_meta = at.is_empty() && (key == "apiVersion" || key == "kind");
        let old = old.filter(|_| !type_meta).and_then(|o| o.field(key));
        out.merge(ratcheted(field, value, old, &path::child(at, key)));
    }
    for name in limits.required.iter().filter(|name| !map.contains_key(*name)) {
        let at = format!("{at}.{name}");
        let message = format!("{at} in body is required");
        out.push(FieldError::new(Kind::Required, at, ""), message);
    }
}

// === impl Old ===

impl<'a> Old<'a> {
    fn field(self, key: &str) -> Option<Old<'a>> {
        Some(Old { value: self.value.get(key)?, spine: self.spine.field(key)? })
    }

    fn item(self, item: &Value) -> Option<Old<'a>> {
        let value = self.spine.correlated_item(item, self.value.as_array()?)?;
        Some(Old { value, spine: self.spine.items.as_deref()? })
    }
}

// === impl Outcome ===

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    fn push(&mut self, mut error: FieldError, message: String) {
        if let Some(trimmed) = error.field.strip_prefix('.') {
            error.field = trimmed.to_owned();
        }
        self.errors.push(Problem { error, message });
    }

    fn invalid(&mut self, at: &str, bad: &Value, message: String) {
        self.push(print::error(Kind::Invalid, at, bad, message.clone()), message);
    }

    fn type_error(&mut self, at: &str, wanted: &str, actual: &str) {
        let message = format!("{at} in body must be of type {wanted}: {}", print::quote(actual));
        self.push(print::error(Kind::TypeInvalid, at, &json!(actual), message.clone()), message);
    }

    /// An error of a branch, which Kubernetes reports without a field.
    fn composite(&mut self, message: String) {
        self.push(print::error(Kind::Invalid, "", &json!(""), message.clone()), message);
    }
}
