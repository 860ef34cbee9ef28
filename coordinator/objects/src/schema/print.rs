//! How Kubernetes prints values inside field errors: Go's quoting, Go's numbers, JSON for the rest.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Number, Value};
use std::fmt::Write;

/// The text of a value in `Invalid value: <text>: ...`.
pub fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(n) => number(n),
        other => json(other),
    }
}

/// Go's `strconv.Quote`: like JSON, but with Go's escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if unprintable(c) => {
                let code = c as u32;
                let _ = if code > 0xffff {
                    write!(out, "\\U{code:08x}")
                } else {
                    write!(out, "\\u{code:04x}")
                };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Beyond ASCII: controls, separators other than the space, format characters.
fn unprintable(c: char) -> bool {
    matches!(c as u32,
        0x80..=0xa0 | 0xad | 0x600..=0x605 | 0x1680 | 0x180e | 0x2000..=0x200f | 0x2028..=0x202f
        | 0x205f..=0x206f | 0x3000 | 0xfeff | 0xfff9..=0xfffb | 0xe000..=0xf8ff | 0xe0001..=0xe007f
        | 0xf0000..=0x10ffff)
}

/// Go's `%v` of an `int64` or a `float64`.
pub fn number(n: &Number) -> String {
    match (n.as_i64(), n.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(float)) => go_float(float),
        (None, None) => n.to_string(),
    }
}

/// Go's `%v` of a `float64`: shortest digits, exponent below 1e-4 and from 1e21 on.
pub fn go_float(float: f64) -> String {
    if float == 0.0 {
        return if float.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let size = float.abs();
    if !(1e-4..1e21).contains(&size) {
        let text = format!("{float:e}");
        let Some((digits, exponent)) = text.split_once('e') else { return text };
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float}")
}

/// Go's `json.Marshal`: sorted keys, `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A field error whose value is printed as Kubernetes prints it.
pub fn error(
    kind: FieldErrorKind,
    field: impl Into<String>,
    bad: &Value,
    detail: impl Into<String>,
) -> FieldError {
    FieldError::printed(kind, field, value(bad), detail)
}

/// `Unsupported value: "x": supported values: "a", "b"`.
pub fn unsupported<S: AsRef<str>>(
    field: impl Into<String>,
    bad: &Value,
    supported: &[S],
) -> FieldError {
    let detail = if supported.is_empty() {
        String::new()
    } else {
        let all: Vec<String> = supported.iter().map(|s| quote(s.as_ref())).collect();
        format!("supported values: {}", all.join(", "))
    };
    error(FieldErrorKind::NotSupported, field, bad, detail)
}
