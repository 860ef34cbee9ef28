//! Path elements: how one step into an object is written, ordered and printed.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::shape::{ListKind, ListShape};

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A field of an object.
    Field(String),
    /// A list item by its keys, sorted by name.
    Keys(Vec<(String, Value)>),
    /// A member of a set.
    Value(Value),
    /// A place in a list.
    Index(i64),
}

/// A path into an object; prints as `.spec.containers[name="a"].image`.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(pub Vec<Element>);

/// `f:` and the name.
pub fn of_field(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text
}

/// The element of a list item, or what is wrong with the item.
pub fn of_item(list: &ListShape, item: &Value) -> Result<String, String> {
    match &list.kind {
        ListKind::By(keys) => of_keys(list, keys, item),
        _ => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            scalar => {
                let mut text = String::from("v:");
                write_json(&mut text, scalar);
                Ok(text)
            }
        },
    }
}

fn of_keys(list: &ListShape, keys: &[Box<str>], item: &Value) -> Result<String, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut text = String::with_capacity(32);
    text.push_str("k:{");
    let start = text.len();
    for key in keys {
        let Some(value) = fields.get(&**key).or_else(|| list.key_default(key)) else { continue };
        if text.len() > start {
            text.push(',');
        }
        write_text(&mut text, key);
        text.push(':');
        write_json(&mut text, value);
    }
    if text.len() == start {
        let names: Vec<String> = keys.iter().map(|k| format!("{k:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    text.push('}');
    Ok(text)
}

/// An element as Kubernetes itself would write it. None for kinds that are not known.
pub(super) fn canonical(text: &str) -> Result<Option<String>, String> {
    let Some((kind, rest)) = text.split_at_checked(2) else {
        return Err(format!("{text}: key must be 2 characters long"));
    };
    if !kind.ends_with(':') {
        return Err(format!("missing colon: {text}"));
    }
    let mut out = kind.to_owned();
    match kind {
        "f:" => return Ok(Some(text.to_owned())),
        "v:" => {
            let value: Value = serde_json::from_str(rest).map_err(|e| e.to_string())?;
            write_json(&mut out, &value);
        }
        "k:" => {
            let keys: std::collections::BTreeMap<String, Value> =
                serde_json::from_str(rest).map_err(|e| e.to_string())?;
            out.push('{');
            for (at, (key, value)) in keys.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(&mut out, key);
                out.push(':');
                write_json(&mut out, value);
            }
            out.push('}');
        }
        "i:" => {
            let place: i64 = rest.parse().map_err(|_| format!("{text}: not a place"))?;
            out.push_str(&place.to_string());
        }
        _ => return Ok(None),
    }
    Ok(Some(out))
}

/// Whether it is plain to see that [`canonical`] would leave the element as it is.
pub(super) fn is_plain(text: &str) -> bool {
    match text.split_at_checked(2) {
        Some(("f:", _)) => true,
        Some(("v:", rest)) => plain_value(rest) == Some(""),
        Some(("k:", rest)) => plain_keys(rest).is_some(),
        _ => false,
    }
}

/// `{"a":"x","b":1}` with the keys in order and nothing to escape.
fn plain_keys(text: &str) -> Option<()> {
    let mut rest = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut last: Option<&str> = None;
    loop {
        let (key, after) = plain_text(rest)?;
        if last.is_some_and(|last| last >= key) {
            return None;
        }
        last = Some(key);
        rest = plain_value(after.strip_prefix(':')?)?;
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// What follows a text, a boolean or a short whole number.
fn plain_value(text: &str) -> Option<&str> {
    if let Some((_, rest)) = plain_text(text) {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix("true").or_else(|| text.strip_prefix("false")) {
        return Some(rest);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let short = (1..=15).contains(&digits) && (digits == 1 || !text.starts_with('0'));
    let rest = text.get(digits..).filter(|_| short)?;
    (rest.is_empty() || rest.starts_with(',')).then_some(rest)
}

/// A quoted text with nothing to escape, and what follows it.
fn plain_text(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let end = inside.bytes().position(|b| !needs_no_escape(b))?;
    Some((inside.get(..end)?, inside.get(end..)?.strip_prefix('"')?))
}

fn needs_no_escape(b: u8) -> bool {
    b >= b' ' && !matches!(b, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

/// Appends JSON as Go writes it, with `<`, `>` and `&` escaped.
fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        other => out.push_str(&other.to_string()),
    }
}

fn write_text(out: &mut String, text: &str) {
    if text.bytes().all(needs_no_escape) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    let quoted = Value::String(text.to_owned()).to_string();
    for c in quoted.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

// === impl Element ===

impl Element {
    /// Reads what [`super::FieldSet`] holds; what cannot be read is taken for a field.
    pub fn parse(text: &str) -> Self {
        let (kind, rest) = text.split_at_checked(2).unwrap_or(("f:", text));
        let read = match kind {
            "k:" => serde_json::from_str::<Map<String, Value>>(rest).ok().map(|keys| {
                let mut keys: Vec<_> = keys.into_iter().collect();
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Keys(keys)
            }),
            "v:" => serde_json::from_str(rest).ok().map(Self::Value),
            "i:" => rest.parse().ok().map(Self::Index),
            _ => None,
        };
        read.unwrap_or_else(|| Self::Field(rest.to_owned()))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Keys(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Kubernetes' order: fields, then keys, values and places.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Keys(a), Self::Keys(b)) => {
                let pairs = a.iter().zip(b).map(|(a, b)| a.0.cmp(&b.0).then(order(&a.1, &b.1)));
                let unequal = pairs.into_iter().find(|o| *o != Ordering::Equal);
                unequal.unwrap_or(a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// Kubernetes' order of values: numbers, text, booleans, lists, maps, null.
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x.cmp(&y),
            _ => {
                let (x, y) = (x.as_f64().unwrap_or(0.0), y.as_f64().unwrap_or(0.0));
                x.partial_cmp(&y).unwrap_or(Ordering::Equal)
            }
        },
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        _ => rank(a).cmp(&rank(b)),
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Keys(keys) => {
                f.write_str("[")?;
                for (at, (key, value)) in keys.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{key}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

// === impl Path ===

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}
