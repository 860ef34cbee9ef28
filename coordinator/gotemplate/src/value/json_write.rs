//! Values as JSON, the way Go writes it: compact, ordered keys, `<`, `>` and `&` escaped.

use super::Value;
use crate::error::FunctionError;
use crate::output::Output;
use crate::print::{float, integer};
use crate::unicode;

/// How lines are broken: not at all, or with this indent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) indent: Option<&'static str>,
}

/// Writes a value; an error names a type that JSON does not have.
pub(crate) fn write(
    out: &mut Output,
    value: &Value<'_>,
    layout: Layout,
    nesting: usize,
) -> Result<(), FunctionError> {
    Writer { out, layout, nesting }.value(value, 0)
}

struct Writer<'o> {
    out: &'o mut Output,
    layout: Layout,
    nesting: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value<'_>, depth: usize) -> Result<(), FunctionError> {
        if depth > self.nesting {
            return Err(FunctionError::Limit("value is nested too deep".to_owned()));
        }
        if self.out.is_over() {
            return Ok(());
        }
        match value {
            Value::Missing | Value::Nil => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Int(number) => integer::decimal(self.out, *number),
            Value::Uint(number) => self.out.push_str(&number.to_string()),
            Value::Byte(number) => self.out.push_str(&number.to_string()),
            Value::Float(number) => self.number(*number)?,
            Value::Complex(..) => {
                return Err(FunctionError::call("json: unsupported type: complex128"));
            }
            Value::Text(text) => string(self.out, text),
            Value::List(list) => {
                self.out.push_byte(b'[');
                for (index, item) in list.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.value(&item, depth + 1)?;
                }
                self.close(list.is_empty(), depth, b']');
            }
            Value::Map(map) => {
                let entries = map.entries();
                self.out.push_byte(b'{');
                for (index, (key, item)) in entries.iter().enumerate() {
                    self.entry(index, key, item, depth)?;
                }
                self.close(entries.is_empty(), depth, b'}');
            }
            Value::Struct(fields) => {
                let names = fields.fields();
                self.out.push_byte(b'{');
                for (index, name) in names.iter().enumerate() {
                    self.entry(index, name.as_bytes(), &fields.field(index), depth)?;
                }
                self.close(names.is_empty(), depth, b'}');
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        index: usize,
        key: &[u8],
        value: &Value<'_>,
        depth: usize,
    ) -> Result<(), FunctionError> {
        self.separate(index, depth + 1);
        string(self.out, key);
        self.out.push_str(if self.layout.indent.is_some() { ": " } else { ":" });
        self.value(value, depth + 1)
    }

    fn separate(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_byte(b',');
        }
        self.line(depth);
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: u8) {
        if !empty {
            self.line(depth);
        }
        self.out.push_byte(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.layout.indent {
            self.out.push_byte(b'\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn number(&mut self, number: f64) -> Result<(), FunctionError> {
        if !number.is_finite() {
            let mut shown = Output::new(64);
            float::general(&mut shown, number);
            let shown = String::from_utf8_lossy(shown.as_bytes()).into_owned();
            return Err(FunctionError::call(format!("json: unsupported value: {shown}")));
        }
        float::json(self.out, number);
        Ok(())
    }
}

/// Text in quotes; broken bytes become `\ufffd`.
fn string(out: &mut Output, bytes: &[u8]) {
    out.push_byte(b'"');
    // Nearly every text has nothing to escape and is copied at once.
    let plain = |byte: u8| (b' '..0x7f).contains(&byte) && !b"\"\\<>&".contains(&byte);
    let plain = bytes.iter().position(|byte| !plain(*byte)).unwrap_or(bytes.len());
    let (plain, rest) = bytes.split_at_checked(plain).unwrap_or_default();
    out.push(plain);
    for (c, raw) in unicode::runes(rest) {
        match c {
            None => out.push_str("\\ufffd"),
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\x08') => out.push_str("\\b"),
            Some('\x0c') => out.push_str("\\f"),
            Some(c) if c < ' ' || matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            Some(_) => out.push(raw),
        }
    }
    out.push_byte(b'"');
}
