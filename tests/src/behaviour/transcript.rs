//! What a server said to a case, with everything that differs from run to run replaced by stable names.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{
    case::Ignore,
    exchange::{Answer, Ask, is_custom},
    expect::manager_key,
};

/// The answers of one case, in order.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// One entry per step.
    pub entries: Vec<Entry>,
    placeholders: Placeholders,
}

/// The answer to one step.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What was asked.
    pub title: String,
    /// Code, warnings, body or events.
    pub answer: Value,
}

/// Stable names by order of first appearance.
#[derive(Clone, Debug, Default)]
struct Placeholders {
    /// Strings that are known beforehand, longest first.
    literals: Vec<(String, String)>,
    uids: BTreeMap<String, usize>,
    revisions: BTreeMap<String, usize>,
    tokens: BTreeMap<String, usize>,
    suffixes: usize,
}

struct Patterns {
    uid: Regex,
    time: Regex,
    port: Regex,
    token: Regex,
    revision: Regex,
    page: Regex,
    age: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        age: Regex::new(r"^\d+s$").ok()?,
        page: Regex::new(r"([?&]continue=)[^&]+").ok()?,
        uid: Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok()?,
        time: Regex::new(
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d( [A-Z]+)?( m=[+-][0-9.]+)?)",
        )
        .ok()?,
        port: Regex::new(r"(127\.0\.0\.1|localhost|\[::1\]):\d{2,5}").ok()?,
        token: Regex::new(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+").ok()?,
        revision: Regex::new(r"((?:current|resource ?version|resourceVersion|in record)[^0-9]{0,3})(\d+)").ok()?,
    })
});

// === impl Transcript ===

impl Transcript {
    /// Everywhere in this transcript `literal` reads `name`.
    pub fn call(&mut self, literal: &str, name: &str) {
        self.placeholders.call(literal, name);
    }

    /// Adds the answer to one request.
    pub fn record(&mut self, ask: &Ask, answer: &Answer, ignore: &[Ignore]) {
        let title = format!("{} {}", ask.method, self.placeholders.string(&ask.path));
        let mut entry = json!({ "code": answer.code, "type": answer.media_type });
        if !answer.warnings.is_empty() {
            entry["warnings"] = self.placeholders.value(&answer.warnings.clone().into());
        }
        let mut body = answer.body.clone();
        forget_order(&mut body);
        let mut events = Value::from(answer.events.clone());
        for rule in ignore {
            let path: Vec<&str> = rule.path.split('/').skip(1).collect();
            remove(&mut body, &path);
            if let Value::Array(events) = &mut events {
                events.iter_mut().for_each(|event| remove(event, &path));
            }
        }
        self.placeholders.learn(&body);
        self.placeholders.learn(&events);
        if !answer.body.is_null() {
            entry["body"] = self.placeholders.value(&body);
        }
        if !answer.events.is_empty() {
            entry["events"] = self.placeholders.value(&events);
        }
        self.entries.push(Entry { title, answer: entry });
    }

    /// Adds what a webhook has seen.
    pub fn record_calls(&mut self, hook: &str, calls: &Value, ignore: &[Ignore]) {
        let mut calls = calls.clone();
        for rule in ignore {
            remove(&mut calls, &rule.path.split('/').skip(1).collect::<Vec<_>>());
        }
        self.placeholders.learn(&calls);
        let answer = self.placeholders.value(&calls);
        self.entries.push(Entry { title: format!("calls of webhook {hook}"), answer });
    }
}

// === impl Placeholders ===

impl Placeholders {
    fn call(&mut self, literal: &str, name: &str) {
        if literal.is_empty() || self.literals.iter().any(|(known, _)| known == literal) {
            return;
        }
        self.literals.push((literal.to_owned(), name.to_owned()));
        self.literals.sort_by_key(|(literal, _)| std::cmp::Reverse(literal.len()));
    }

    /// Gives names to the suffixes that the server has made up, wherever they are in `value`.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(map) => {
                map.values().for_each(|value| self.learn(value));
                if let (Some(prefix), Some(name)) =
                    (text_of(map, "generateName"), text_of(map, "name"))
                    && let Some(suffix) =
                        name.strip_prefix(prefix).filter(|suffix| suffix.len() >= 5)
                    && !self.literals.iter().any(|(known, _)| known == suffix)
                {
                    self.suffixes += 1;
                    let stable = format!("<suffix-{}>", self.suffixes);
                    self.call(suffix, &stable);
                }
            }
            _ => {}
        }
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) if is_snapshot(map) => {
                let mut map = map.clone();
                for pointer in ["metadata", "object"] {
                    map.entry(pointer).and_modify(forget_revision);
                }
                self.object(&map).into()
            }
            Value::String(text) => self.string(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => self.object(map).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let sorted: BTreeMap<&String, &Value> = map.iter().collect();
        let mut out = Map::new();
        for (key, value) in sorted {
            let filled = match (key.as_str(), value) {
                ("resourceVersion", Value::String(text)) => self.revision(text).into(),
                ("cells", Value::Array(cells)) => {
                    cells.iter().map(|cell| self.cell(cell)).collect()
                }
                ("storageVersionHash", _) => "<hash>".into(),
                ("continue", Value::String(text)) if !text.is_empty() => "<continue>".into(),
                ("managedFields", Value::Array(entries)) => {
                    let mut entries = entries.clone();
                    entries.sort_by_key(manager_key);
                    self.value(&entries.into())
                }
                _ => self.value(value),
            };
            out.insert(self.string(key), filled);
        }
        out
    }

    /// A cell of a table; the age of an object is that of the run.
    fn cell(&mut self, cell: &Value) -> Value {
        match (cell, PATTERNS.as_ref()) {
            (Value::String(text), Some(patterns)) if patterns.age.is_match(text) => "<age>".into(),
            _ => self.value(cell),
        }
    }

    fn revision(&mut self, text: &str) -> String {
        if text.parse::<u64>().unwrap_or(0) == 0 {
            return text.to_owned();
        }
        let next = self.revisions.len() + 1;
        format!("<rv-{}>", self.revisions.entry(text.to_owned()).or_insert(next))
    }

    fn string(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (literal, name) in &self.literals {
            if text.contains(literal.as_str()) {
                text = text.replace(literal, name);
            }
        }
        let Some(patterns) = PATTERNS.as_ref() else { return text };
        let text = numbered(&patterns.token, &text, &mut self.tokens, "token");
        let text = numbered(&patterns.uid, &text, &mut self.uids, "uid");
        let text = patterns.page.replace_all(&text, "$1<continue>");
        let text = patterns.time.replace_all(&text, "<time>");
        let text = patterns.port.replace_all(&text, "$1:<port>");
        patterns.revision.replace_all(&text, "$1<rv>").into_owned()
    }
}

/// A list, a table or a bookmark. Its revision is that of the whole store, which others move on.
fn is_snapshot(map: &Map<String, Value>) -> bool {
    let collection = map.get("items").or(map.get("rows")).is_some_and(Value::is_array);
    collection || map.get("type").is_some_and(|kind| kind == "BOOKMARK")
}

/// The message about several mistakes in a custom resource has them in no order; the causes beside it are sorted.
fn forget_order(body: &mut Value) {
    let causes = body.pointer("/details/causes").and_then(Value::as_array).map_or(0, Vec::len);
    if is_custom(body)
        && causes > 1
        && let Some(Value::String(message)) = body.pointer_mut("/message")
        && let Some((start, _)) = message.split_once(" is invalid: [")
    {
        *message = format!("{start} is invalid: [<causes>]");
    }
}

fn forget_revision(value: &mut Value) {
    for pointer in ["/resourceVersion", "/metadata/resourceVersion"] {
        if let Some(Value::String(revision)) = value.pointer_mut(pointer)
            && !revision.is_empty()
        {
            *revision = "<rv>".to_owned();
        }
    }
}

fn text_of<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key)?.as_str()
}

fn numbered(regex: &Regex, text: &str, known: &mut BTreeMap<String, usize>, name: &str) -> String {
    let replace = |found: &regex::Captures<'_>| {
        let next = known.len() + 1;
        format!("<{name}-{}>", known.entry(found[0].to_owned()).or_insert(next))
    };
    regex.replace_all(text, replace).into_owned()
}

/// Removes what `path` leads to; `*` is any key or index.
fn remove(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    let key = first.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(map) if rest.is_empty() => map.retain(|name, _| key != "*" && *name != key),
        Value::Object(map) => {
            map.iter_mut()
                .filter(|(name, _)| key == "*" || **name == key)
                .for_each(|(_, value)| remove(value, rest));
        }
        Value::Array(items) => items
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| key == "*" || index.to_string() == key)
            .for_each(|(_, value)| remove(value, rest)),
        _ => {}
    }
}
