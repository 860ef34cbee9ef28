//! What a template works on.
//!
//! A value borrows the data where it can: typed data shows itself through [`Data`], [`Sequence`], [`Mapping`] and
//! [`Struct`], and no tree is built from it. What functions compute is shared by counted references, so copying
//! any value is cheap.
//!
//! ```text
//!   Missing   no such key, no data          prints <no value>, fields of it are missing too
//!   Nil       a key or element that is null prints <no value>, a field of it is an error
//!   …         bool, numbers, text (bytes), lists, maps (ordered keys), structs (fixed fields)
//! ```

mod data;
pub(crate) mod json_read;
pub(crate) mod json_write;
mod list;
mod map;

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::error::FunctionError;
use crate::limits::Limits;
pub use data::{Data, Mapping, Sequence, Struct};
pub use json_read::Numbers;
pub use list::List;
pub use map::Map;

/// The type name of anything.
pub(crate) const ANY: &str = "interface {}";

/// One value.
#[derive(Clone)]
pub enum Value<'a> {
    /// Nothing: a key that a map does not have, or no data at all.
    Missing,
    /// Null in a map or a list.
    Nil,
    /// A truth value.
    Bool(bool),
    /// Go's `int`.
    Int(i64),
    /// Go's `uint64`.
    Uint(u64),
    /// Go's `uint8`, what indexing text gives.
    Byte(u8),
    /// Go's `float64`.
    Float(f64),
    /// Go's `complex128`.
    Complex(f64, f64),
    /// Go's `string`.
    Text(Text<'a>),
    /// A slice.
    List(List<'a>),
    /// A map with text keys.
    Map(Map<'a>),
    /// A struct.
    Struct(&'a (dyn Struct + 'a)),
}

/// Bytes that are mostly UTF-8.
#[derive(Clone)]
pub enum Text<'a> {
    /// From the data or the template.
    Borrowed(&'a [u8]),
    /// Made by a function.
    Shared(Rc<[u8]>),
}

// === impl Value ===

impl<'a> Value<'a> {
    /// Text that a function made.
    pub fn text(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Text(Text::Shared(Rc::from(bytes.into())))
    }

    /// A list of anything that a function made.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::of_any(items))
    }

    /// A list of text that a function made.
    pub fn texts(items: Vec<Value<'a>>) -> Self {
        Self::List(List::of_text(items))
    }

    /// A map of anything that a function made; of equal keys the last one counts.
    pub fn map(entries: Vec<(Text<'a>, Value<'a>)>) -> Self {
        Self::Map(Map::of_any(entries))
    }

    /// A view of decoded JSON.
    pub fn from_json(json: &'a serde_json::Value, numbers: Numbers) -> Self {
        json_read::view(json, numbers)
    }

    /// Reads JSON text, every digit of its numbers included.
    pub fn read_json(text: &[u8], numbers: Numbers) -> Result<Value<'static>, String> {
        json_read::read(text, numbers, Limits::default().nesting).map_err(|fault| match fault {
            FunctionError::Call(message) | FunctionError::Limit(message) => message,
        })
    }

    /// Whether the value counts as true: neither empty nor zero.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Uint(value) => *value != 0,
            Self::Byte(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Struct(_) => true,
        }
    }

    /// Whether there is nothing here.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Missing | Self::Nil)
    }

    /// The bytes, if this is text.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is an integer that fits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => i64::try_from(*value).ok(),
            Self::Byte(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// The name of the type, as Go prints it.
    pub fn type_name(&self) -> &'a str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Text(_) => "string",
            Self::List(list) => list.type_name(),
            Self::Map(map) => map.type_name(),
            Self::Struct(value) => value.type_name(),
        }
    }

    /// How many levels of lists and maps that functions made lie in here.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            _ => 0,
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = crate::output::Output::new(4096);
        crate::print::show(
            &mut out,
            self,
            crate::print::Flags { sharp_v: true, ..Default::default() },
        );
        f.write_str(&String::from_utf8_lossy(out.as_bytes()))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Text::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

// === impl Text ===

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self))
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text.as_bytes())
    }
}

impl From<Vec<u8>> for Text<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Shared(Rc::from(bytes))
    }
}
