//! When something is what was recorded.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";

/// What placeholders stand for, once one was seen.
#[derive(Default)]
pub struct Matching {
    known: BTreeMap<String, String>,
    /// Lists of addresses may be in any order.
    pub unordered: bool,
}

impl Matching {
    /// Whether `found` is `expected`; where not, it is said.
    pub fn compare(&mut self, found: &Value, expected: &Value, at: &str) -> Result<(), String> {
        let key = at.rsplit('/').next().unwrap_or_default();
        match (found, expected) {
            (Value::Null, Value::Array(list)) | (Value::Array(list), Value::Null)
                if list.is_empty() && matches!(key, "collectors" | "learners") =>
            {
                Ok(())
            }
            (Value::Object(found), Value::Object(expected)) => self.object(found, expected, at),
            (Value::Array(found), Value::Array(expected)) => self.list(found, expected, key, at),
            (Value::String(found), Value::String(expected)) => self.text(found, expected, at),
            _ if found == expected => Ok(()),
            _ => Err(format!("{at}: {found} instead of {expected}")),
        }
    }

    fn object(
        &mut self,
        found: &Map<String, Value>,
        expected: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let optional = ["resources", "status", "creationTimestamp", "targetPort"];
        let keys: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let at = format!("{at}/{key}");
            match (found.get(key), expected.get(key)) {
                (Some(found), Some(expected)) if key == "selector" => {
                    selector(found, expected, &at)?;
                }
                (Some(found), Some(expected)) => self.compare(found, expected, &at)?,
                (Some(value), None) | (None, Some(value))
                    if optional.contains(&key.as_str()) && empty(value) => {}
                (Some(Value::Bool(true)), None) if key == "publishNotReadyAddresses" => {}
                (found, expected) => {
                    return Err(format!("{at}: {found:?} instead of {expected:?}"));
                }
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        found: &[Value],
        expected: &[Value],
        key: &str,
        at: &str,
    ) -> Result<(), String> {
        if found.len() != expected.len() {
            return Err(format!("{at}: {found:?} instead of {expected:?}"));
        }
        let (mut found, mut expected) = (found.to_vec(), expected.to_vec());
        let any_order =
            key == "env" || self.unordered && matches!(key, "collectors" | "learners" | "data");
        if any_order {
            let by = |value: &Value| {
                value["name"].as_str().map_or_else(|| value.to_string(), str::to_owned)
            };
            found.sort_by_key(by);
            expected.sort_by_key(by);
        }
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            self.compare(found, expected, &format!("{at}/{number}"))?;
        }
        Ok(())
    }

    /// Text with placeholders: names are bound when they are seen first.
    pub fn text(&mut self, found: &str, expected: &str, at: &str) -> Result<(), String> {
        let wrong = || Err(format!("{at}: {found:?} instead of {expected:?}"));
        let (mut left, mut pattern) = (found, expected);
        while let Some(start) = pattern.find("{{") {
            let (before, rest) = pattern.split_at(start);
            let Some(end) = rest.find("}}") else { return wrong() };
            let (name, after) = (&rest[2..end], &rest[end + 2..]);
            let Some(tail) = left.strip_prefix(before) else { return wrong() };
            left = tail;
            pattern = after;
            match name {
                "any" => return Ok(()),
                "now" => {
                    let time: Result<jiff::Timestamp, _> = left.parse();
                    let begun = "2026-11-16T00:00:00Z".parse().unwrap();
                    return if time.is_ok_and(|time| time >= begun) { Ok(()) } else { wrong() };
                }
                name => {
                    let Some(suffix) = left.get(..5) else { return wrong() };
                    left = &left[5..];
                    let known =
                        self.known.entry(name.to_owned()).or_insert_with(|| suffix.to_owned());
                    if known != suffix || !suffix.chars().all(|c| ALPHABET.contains(c)) {
                        return wrong();
                    }
                }
            }
        }
        if left == pattern { Ok(()) } else { wrong() }
    }
}

/// A service may select on fewer labels than were recorded.
fn selector(found: &Value, expected: &Value, at: &str) -> Result<(), String> {
    let keys = ["group-name", "dijob-name", "controller-name", "replica-type", "pod-name"];
    let (Some(found), Some(expected)) = (found.as_object(), expected.as_object()) else {
        return Err(format!("{at}: no selector"));
    };
    let right = keys.iter().all(|key| found.get(*key) == expected.get(*key))
        && found.iter().all(|(key, value)| expected.get(key) == Some(value));
    if right { Ok(()) } else { Err(format!("{at}: {found:?} instead of {expected:?}")) }
}
