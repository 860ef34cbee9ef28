//! The protobuf wire format: numbered values of four kinds, one after the other.

use std::fmt::{self, Display};

/// How deep groups may nest in what is skipped.
const DEEPEST: usize = 64;

/// What is left of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    rest: &'a [u8],
}

/// One value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    /// A number of variable length.
    Varint(u64),
    /// A number of eight bytes.
    Fixed(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// A kind that no type of the API has.
    Other,
}

/// Why bytes are not what the table says. Where it went wrong is filled in on the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    at: Option<String>,
    what: String,
}

// === impl Message ===

impl<'a> Message<'a> {
    /// A message of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next value with its number, or none at the end.
    pub fn next_value(&mut self) -> Result<Option<(u32, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        let wire = match kind {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed(self.fixed()?),
            2 => Wire::Bytes(self.bytes()?),
            3 => {
                self.skip_group(number)?;
                Wire::Other
            }
            _ => {
                self.skip(kind)?;
                Wire::Other
            }
        };
        Ok(Some((number, wire)))
    }

    /// The next bare number, as packed lists have them, or none at the end.
    pub fn next_number(&mut self) -> Result<Option<u64>, Malformed> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if (1..=0x1fff_ffff).contains(&number) => Ok((number, (tag & 7) as u8)),
            _ => Err(Malformed::new(format!("illegal tag {tag}"))),
        }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            Malformed::truncated()
        } else {
            Malformed::new("integer overflow")
        })
    }

    fn fixed(&mut self) -> Result<u64, Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(Malformed::truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed::truncated())?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(Malformed::truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn skip(&mut self, kind: u8) -> Result<(), Malformed> {
        match kind {
            0 => self.varint().map(|_| ()),
            1 => self.take(8).map(|_| ()),
            2 => self.bytes().map(|_| ()),
            5 => self.take(4).map(|_| ()),
            _ => Err(Malformed::new(format!("illegal wire type {kind}"))),
        }
    }

    /// Skips a group up to its end. Nobody sends groups, but the format has them.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            match self.tag()? {
                (number, 3) if open.len() < DEEPEST => open.push(number),
                (_, 3) => return Err(Malformed::new("groups nest too deep")),
                (number, 4) if number == innermost => {
                    open.pop();
                }
                (number, 4) => {
                    return Err(Malformed::new(format!("unexpected end of group {number}")));
                }
                (_, kind) => self.skip(kind)?,
            }
        }
        Ok(())
    }
}

// === impl Wire ===

impl<'a> Wire<'a> {
    /// The number, where it is one.
    pub fn varint(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Malformed::new("wrong wire type, expected a varint")),
        }
    }

    /// The number with a fraction, where it is one.
    pub fn float(self) -> Result<f64, Malformed> {
        match self {
            Self::Fixed(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed::new("wrong wire type, expected eight bytes")),
        }
    }

    /// The bytes, where these are bytes.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::new("wrong wire type, expected bytes")),
        }
    }

    /// The bytes as text.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::new("not UTF-8"))
    }
}

// === impl Malformed ===

impl Malformed {
    /// Something else that is wrong.
    pub fn new(what: impl Into<String>) -> Self {
        Self { at: None, what: what.into() }
    }

    fn truncated() -> Self {
        Self::new("unexpected EOF")
    }

    /// Says in which field it went wrong; the innermost one stays.
    pub fn inside(mut self, holder: &str, field: &str) -> Self {
        self.at.get_or_insert_with(|| format!("{holder}.{field}"));
        self
    }
}

impl Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
