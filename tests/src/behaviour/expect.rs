//! Does an answer meet the expectation of its step?

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{case::Expect, exchange::Answer};

/// Everything that `answer` lacks of what `expect` asks; empty if it meets it.
pub fn shortcomings(expect: &Expect, answer: &Answer) -> Vec<String> {
    let mut wrong = Vec::new();
    match expect.code {
        Some(code) if code != answer.code => {
            wrong.push(format!("code {} in place of {code}", answer.code));
        }
        None if !(200..300).contains(&answer.code) => {
            wrong.push(format!("code {} in place of 2xx", answer.code));
        }
        _ => {}
    }
    if let Some(body) = &expect.body {
        compare(body, &answer.body, "", &mut wrong);
    }
    for path in &expect.absent {
        if let Some(found) = answer.body.pointer(path) {
            wrong.push(format!("{path} should be absent, is {found}"));
        }
    }
    for (path, value) in &expect.differs {
        match answer.body.pointer(path) {
            None => wrong.push(format!("{path} is absent")),
            Some(found) if text(found) == *value => wrong.push(format!("{path} is still {value}")),
            Some(_) => {}
        }
    }
    if let Some(message) = &expect.message {
        let found = answer.body.pointer("/message").map(text).unwrap_or_default();
        if !part_of(message, &found) {
            wrong.push(format!("message {found:?} lacks {message:?}"));
        }
    }
    if let Some(managers) = &expect.managers {
        let found = managers_of(&answer.body);
        if *managers != found {
            wrong.push(format!("managers {} in place of {}", json!(found), json!(managers)));
        }
    }
    if let Some(warnings) = &expect.warnings {
        let same = warnings.len() == answer.warnings.len()
            && warnings.iter().zip(&answer.warnings).all(|(part, all)| part_of(part, all));
        if !same {
            wrong.push(format!("warnings {:?} in place of {warnings:?}", answer.warnings));
        }
    }
    if let Some(events) = &expect.events {
        compare(&Value::Array(events.clone()), &Value::from(answer.events.clone()), "", &mut wrong);
    }
    if !wrong.is_empty()
        && let Some(message) = answer.body.pointer("/message")
    {
        wrong.push(format!("the server said {message}"));
    }
    wrong
}

/// managedFields as a map from `manager operation [subresource]` to fields.
fn managers_of(body: &Value) -> BTreeMap<String, Value> {
    let entries = body.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .map(|entry| (manager_key(entry), entry["fieldsV1"].clone()))
        .collect()
}

/// What tells one managedFields entry from the others.
pub fn manager_key(entry: &Value) -> String {
    let parts = ["manager", "operation", "subresource"];
    let words: Vec<&str> = parts.iter().filter_map(|part| entry[*part].as_str()).collect();
    words.join(" ")
}

fn compare(expected: &Value, found: &Value, path: &str, wrong: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            compare_keys(expected, found, path, wrong);
        }
        (Value::Array(expected), Value::Array(found)) => {
            if expected.len() != found.len() {
                let all = Value::from(found.clone());
                wrong.push(format!(
                    "{path} has {} items in place of {}: {all}",
                    found.len(),
                    expected.len()
                ));
            }
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(expected, found, &format!("{path}/{index}"), wrong);
            }
        }
        (Value::String(pattern), found) if pattern.starts_with('~') => {
            if !part_of(pattern, &text(found)) {
                wrong.push(format!("{path} is {found}, which does not match {pattern}"));
            }
        }
        _ if expected == found => {}
        _ => wrong.push(format!("{path} is {found} in place of {expected}")),
    }
}

fn compare_keys(
    expected: &Map<String, Value>,
    found: &Map<String, Value>,
    path: &str,
    wrong: &mut Vec<String>,
) {
    for (key, expected) in expected {
        match found.get(key) {
            Some(found) => compare(expected, found, &format!("{path}/{key}"), wrong),
            None if expected.is_null() => {}
            None => wrong.push(format!("{path}/{key} is absent in place of {expected}")),
        }
    }
}

fn part_of(part: &str, all: &str) -> bool {
    match part.strip_prefix('~') {
        Some(pattern) => Regex::new(pattern).is_ok_and(|regex| regex.is_match(all)),
        None => all.contains(part),
    }
}

/// A string as it is, anything else as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
