//! Checks that all messages share: bounded texts and lists, addresses, enums.

use std::fmt::Display;
use std::net::IpAddr;

use super::LONGEST_TEXT;
use crate::delivery::Digest;

/// A message that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// Where it is wrong: `inventory.devices[3].path`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

// === impl Invalid ===

impl Invalid {
    /// This field has this problem.
    pub fn new(field: &str, problem: impl Display) -> Self {
        Self { field: field.to_owned(), problem: problem.to_string() }
    }

    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        "invalid-message"
    }

    /// The same, seen from outside.
    pub(super) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// A text of bounded length.
pub(super) fn text(field: &str, text: String) -> Result<String, Invalid> {
    match text.len() {
        0..=LONGEST_TEXT => Ok(text),
        length => {
            Err(Invalid::new(field, format!("has {length} bytes; {LONGEST_TEXT} are allowed")))
        }
    }
}

/// A text that may be missing.
pub(super) fn maybe(field: &str, value: Option<String>) -> Result<Option<String>, Invalid> {
    value.map(|value| text(field, value)).transpose()
}

/// A text that must not be empty.
pub(super) fn name(field: &str, value: String) -> Result<String, Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    text(field, value)
}

/// Each item of a list of bounded length, in its order.
pub(super) fn list<W, V>(
    field: &str,
    items: Vec<W>,
    most: usize,
    read: impl Fn(W) -> Result<V, Invalid>,
) -> Result<Vec<V>, Invalid> {
    if items.len() > most {
        return Err(Invalid::new(
            field,
            format!("has {} entries; {most} are allowed", items.len()),
        ));
    }
    let read = |(at, item)| read(item).map_err(|invalid| invalid.within(&format!("{field}[{at}]")));
    items.into_iter().enumerate().map(read).collect()
}

/// A part that must be there.
pub(super) fn part<W>(field: &str, part: Option<W>) -> Result<W, Invalid> {
    part.ok_or_else(|| Invalid::new(field, "is missing"))
}

/// An address of 4 or 16 bytes.
pub(super) fn ip(field: &str, bytes: &[u8]) -> Result<IpAddr, Invalid> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(four));
    }
    let sixteen = <[u8; 16]>::try_from(bytes).map_err(|_| {
        Invalid::new(field, format!("is no address: {} bytes instead of 4 or 16", bytes.len()))
    })?;
    Ok(IpAddr::from(sixteen))
}

/// An address as bytes.
pub(super) fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// A digest of 32 bytes.
pub(super) fn digest(field: &str, bytes: &[u8]) -> Result<Digest, Invalid> {
    let problem = |_| Invalid::new(field, format!("has {} bytes instead of 32", bytes.len()));
    Digest::try_from(bytes).map_err(problem)
}

/// A number that must fit.
pub(super) fn small(field: &str, number: u32, most: u8) -> Result<u8, Invalid> {
    match u8::try_from(number) {
        Ok(small) if small <= most => Ok(small),
        _ => Err(Invalid::new(field, format!("is {number}; {most} is the largest"))),
    }
}
