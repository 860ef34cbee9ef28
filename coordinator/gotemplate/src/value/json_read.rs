//! JSON into values, the way Go reads it: every number is a float, of equal keys the last one counts, half a
//! surrogate pair becomes U+FFFD.
//!
//! The reader keeps its own stack, so deep input is an error and not a crash.

use std::rc::Rc;

use super::{List, Map, Text, Value};
use crate::error::FunctionError;
use crate::number::parse_float;
use crate::unicode;

/// What JSON numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// All become floats, as Go decodes into `any`.
    Floats,
    /// Integers become ints, others floats.
    Typed,
}

/// A view of decoded JSON.
pub(super) fn view(json: &serde_json::Value, numbers: Numbers) -> Value<'_> {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (numbers, number.as_i64()) {
            (Numbers::Typed, Some(int)) => Value::Int(int),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => {
            Value::List(List::of_any(items.iter().map(|item| view(item, numbers)).collect()))
        }
        serde_json::Value::Object(entries) => {
            let entries =
                entries.iter().map(|(key, item)| (Text::from(key.as_str()), view(item, numbers)));
            Value::Map(Map::of_any(entries.collect()))
        }
    }
}

/// Reads one JSON text. What it holds is copied.
pub(crate) fn read<'a>(
    bytes: &[u8],
    numbers: Numbers,
    nesting: usize,
) -> Result<Value<'a>, FunctionError> {
    document(bytes, numbers, nesting, |plain| Text::Shared(Rc::from(plain)))
}

/// Reads one JSON text that lives as long as what it holds: strings without escapes are views of it.
pub(crate) fn read_borrowed(
    bytes: &[u8],
    numbers: Numbers,
    nesting: usize,
) -> Result<Value<'_>, FunctionError> {
    document(bytes, numbers, nesting, Text::Borrowed)
}

fn document<'b, 'a>(
    bytes: &'b [u8],
    numbers: Numbers,
    nesting: usize,
    keep: impl Fn(&'b [u8]) -> Text<'a>,
) -> Result<Value<'a>, FunctionError> {
    let mut reader = Reader { bytes, at: 0, numbers, keep, too_large: None };
    let value = reader.document(nesting)?;
    reader.blanks();
    if let Some(byte) = reader.peek() {
        return Err(unexpected(byte, "after top-level value"));
    }
    match reader.too_large {
        Some(number) => {
            Err(format!("json: cannot unmarshal number {number} into Go value of type float64")
                .into())
        }
        None => Ok(value),
    }
}

struct Reader<'b, K> {
    bytes: &'b [u8],
    at: usize,
    numbers: Numbers,
    /// Makes text of a string without escapes.
    keep: K,
    /// The first number that no float can hold. What is no JSON at all is reported before it.
    too_large: Option<String>,
}

enum Open<'a> {
    List(Vec<Value<'a>>),
    Map(Vec<(Text<'a>, Value<'a>)>, Text<'a>),
}

impl<'b, 'a, K: Fn(&'b [u8]) -> Text<'a>> Reader<'b, K> {
    fn document(&mut self, nesting: usize) -> Result<Value<'a>, FunctionError> {
        let mut open: Vec<Open<'a>> = Vec::new();
        loop {
            self.blanks();
            // A value, or the opening of one that has no elements yet.
            let mut value = match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    self.blanks();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        Value::list(Vec::new())
                    } else {
                        open.push(Open::List(Vec::new()));
                        within(open.len(), nesting)?;
                        continue;
                    }
                }
                Some(b'{') => {
                    self.at += 1;
                    self.blanks();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        Value::map(Vec::new())
                    } else {
                        let key = self.key()?;
                        open.push(Open::Map(Vec::new(), key));
                        within(open.len(), nesting)?;
                        continue;
                    }
                }
                _ => self.scalar()?,
            };
            // Close what the value completes.
            loop {
                let Some(top) = open.last_mut() else { return Ok(value) };
                self.blanks();
                let next = self.next()?;
                match (top, next) {
                    (Open::List(items), b',' | b']') => {
                        items.push(value);
                        if next == b',' {
                            break;
                        }
                        value = Value::list(std::mem::take(items));
                    }
                    (Open::Map(entries, key), b',' | b'}') => {
                        let empty = Text::Borrowed(&[]);
                        entries.push((std::mem::replace(key, empty), value));
                        if next == b',' {
                            self.blanks();
                            *key = self.key()?;
                            break;
                        }
                        value = Value::map(std::mem::take(entries));
                    }
                    (Open::List(_), byte) => return Err(unexpected(byte, "after array element")),
                    (Open::Map(..), byte) => {
                        return Err(unexpected(byte, "after object key:value pair"));
                    }
                }
                open.pop();
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, FunctionError> {
        let byte = self.peek().ok_or_else(end)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte where a blank would be wrong too: the end reads as one.
    fn solid(&mut self) -> u8 {
        let byte = self.peek().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn key(&mut self) -> Result<Text<'a>, FunctionError> {
        match self.next()? {
            b'"' => {}
            byte => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        let key = self.string()?;
        self.blanks();
        match self.next()? {
            b':' => Ok(key),
            byte => Err(unexpected(byte, "after object key")),
        }
    }

    fn scalar(&mut self) -> Result<Value<'a>, FunctionError> {
        match self.next()? {
            b'"' => Ok(Value::Text(self.string()?)),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Nil),
            b'-' | b'0'..=b'9' => {
                self.at -= 1;
                self.number()
            }
            byte => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    /// The rest of a word, behind its first letter.
    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, FunctionError> {
        for expected in word.bytes().skip(1) {
            let byte = self.solid();
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(value)
    }

    fn digits(&mut self, context: &str) -> Result<(), FunctionError> {
        match self.solid() {
            b'0'..=b'9' => {}
            byte => return Err(unexpected(byte, context)),
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value<'a>, FunctionError> {
        let start = self.at;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = self.bytes.get(start..self.at).and_then(|text| std::str::from_utf8(text).ok());
        let text = text.unwrap_or_default();
        if whole
            && self.numbers == Numbers::Typed
            && let Ok(int) = text.parse::<i64>()
        {
            return Ok(Value::Int(int));
        }
        match parse_float(text) {
            Some(number) => Ok(Value::Float(number)),
            None => {
                self.too_large.get_or_insert_with(|| text.to_owned());
                Ok(Value::Nil)
            }
        }
    }

    /// The rest of a string, behind its opening quote.
    fn string(&mut self) -> Result<Text<'a>, FunctionError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let plain = |byte: &u8| matches!(byte, 0x20..0x80) && *byte != b'"' && *byte != b'\\';
        let plain = rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
        let (plain, rest) = rest.split_at_checked(plain).unwrap_or_default();
        self.at += plain.len();
        // Nearly every string ends here, and is copied once or not at all.
        if rest.first() == Some(&b'"') {
            self.at += 1;
            return Ok((self.keep)(plain));
        }
        let mut text = plain.to_vec();
        loop {
            match self.next()? {
                b'"' => return Ok(Text::from(text)),
                b'\\' => self.escape(&mut text)?,
                byte @ 0..0x20 => return Err(unexpected(byte, "in string literal")),
                byte @ 0x20..0x80 => text.push(byte),
                _ => {
                    let rest = self.bytes.get(self.at - 1..).unwrap_or_default();
                    let (c, width) = unicode::decode(rest).unwrap_or((None, 1));
                    push_char(&mut text, c.unwrap_or(unicode::REPLACEMENT));
                    self.at += width - 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), FunctionError> {
        text.push(match self.solid() {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = self.unit()?;
                let c = match unit {
                    0xd800..0xdc00 => self.low_half(unit),
                    _ => char::from_u32(unit),
                };
                push_char(text, c.unwrap_or(unicode::REPLACEMENT));
                return Ok(());
            }
            byte => return Err(unexpected(byte, "in string escape code")),
        });
        Ok(())
    }

    /// The whole character, if the other half of the pair follows.
    fn low_half(&mut self, high: u32) -> Option<char> {
        let digits = self.bytes.get(self.at..)?.strip_prefix(b"\\u")?.get(..4)?;
        let low = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if !(0xdc00..0xe000).contains(&low) {
            return None;
        }
        self.at += 6;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn unit(&mut self) -> Result<u32, FunctionError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.solid();
            let digit = char::from(byte).to_digit(16);
            unit = unit << 4
                | digit.ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
        }
        Ok(unit)
    }
}

fn push_char(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn within(depth: usize, nesting: usize) -> Result<(), FunctionError> {
    if depth > nesting { Err(FunctionError::call("exceeded max depth")) } else { Ok(()) }
}

fn end() -> FunctionError {
    FunctionError::call("unexpected end of JSON input")
}

fn unexpected(byte: u8, context: &str) -> FunctionError {
    let mut shown = crate::output::Output::new(16);
    match byte {
        b'\'' => shown.push_str(r"'\''"),
        b'"' => shown.push_str("'\"'"),
        _ => crate::quote::quote_char(&mut shown, char::from(byte), false),
    }
    FunctionError::call(format!(
        "invalid character {} {context}",
        String::from_utf8_lossy(shown.as_bytes())
    ))
}
