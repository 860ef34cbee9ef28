//! Field selectors: `spec.nodeName=x,metadata.name!=y`.

use std::borrow::Cow;

use serde_json::Value;

use crate::status::Status;

/// A conjunction of conditions on fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Reads a selector for a kind that knows just these fields.
    pub fn parse(text: &str, allowed: &[&str]) -> Result<Self, Status> {
        Self::parse_with(text, |field| {
            let known = allowed.contains(&field);
            if known { Ok(()) } else { Err(format!("field label not supported: {field}")) }
        })
    }

    /// Reads a selector for a built-in kind without fields of its own: only name and namespace.
    pub fn parse_plain(text: &str) -> Result<Self, Status> {
        Self::parse_with(text, |field| match field {
            "metadata.name" | "metadata.namespace" => Ok(()),
            _ => Err(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        })
    }

    fn parse_with(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<Self, Status> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            let term = Term::parse(part).map_err(Status::bad_request)?.ok_or_else(|| {
                Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ))
            })?;
            terms.push(term);
        }
        for term in &terms {
            check(&term.field).map_err(Status::bad_request)?;
        }
        Ok(Self { terms })
    }

    /// Whether the object meets all conditions.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|t| (value(object, &t.field) == t.value) == t.equal)
    }

    /// Whether there is no condition.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that the field must have, if the selector says so.
    pub fn equals(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }
}

// === impl Term ===

impl Term {
    /// None when there is no operator.
    fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(at) = text.find(['!', '=']).filter(|_| text.contains('=')) else {
            return Ok(None);
        };
        let found = text.char_indices().skip_while(|(i, _)| *i < at).find_map(|(i, _)| {
            let rest = text.get(i..)?;
            ["!=", "==", "="].iter().find(|op| rest.starts_with(**op)).map(|op| (i, *op))
        });
        let Some((at, operator)) = found else { return Ok(None) };
        let (field, rest) = text.split_at(at);
        let value = unescape(rest.get(operator.len()..).unwrap_or(""))?;
        Ok(Some(Self { field: field.to_owned(), value, equal: operator != "!=" }))
    }
}

/// The terms between commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    let wrong = |what: &str| Err(format!("invalid field selector: {what}"));
    for c in text.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                out.push(c);
                escaped = false;
            }
            (true, c) => return wrong(&format!("invalid escape sequence: \\{c}")),
            (false, '\\') => escaped = true,
            (false, ',' | '=') => {
                return wrong(&format!("unescaped character in value: {}", u32::from(c)));
            }
            (false, c) => out.push(c),
        }
    }
    if escaped { wrong("invalid escape sequence: \\") } else { Ok(out) }
}

/// A field of an object as selectors see it; absent fields are empty.
fn value<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    let path = match field {
        "status.successful" => "status.succeeded",
        "source" => "source.component",
        path => path,
    };
    let found = path.split('.').try_fold(object, |value, key| value.get(key));
    match (found, field) {
        (Some(Value::String(text)), _) => Cow::Borrowed(text),
        (None | Some(Value::Null), "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        (None | Some(Value::Null), "status.successful" | "status.replicas") => "0".into(),
        (None | Some(Value::Null), "source") => {
            object.get("reportingComponent").and_then(Value::as_str).unwrap_or("").into()
        }
        (None | Some(Value::Null), _) => "".into(),
        (Some(other), _) => other.to_string().into(),
    }
}
