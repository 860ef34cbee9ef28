//! A numbering as text, for the record of its group: ranks that are kept survive a restart of the coordinator.
//!
//! ```text
//!   ranks/1
//!   10.0.0.1 0+8=0            devices 0 to 7 have the ranks 0 to 7
//!   10.0.0.2 0+2=8 5=10       devices 0 and 1 have 8 and 9, device 5 has 10
//!   node-c GPU-1f=11
//! ```
//!
//! Servers and devices stand in numeric order, and runs are as long as they can be, so equal numberings have equal
//! texts. A hundred thousand ranks of eight devices per server take about 300 KiB. Any byte of a name that is neither
//! letter, digit nor one of `._:-` is written as `%` and two hexadecimal digits, a name without any byte as `%`.

use std::fmt::Write as _;

use super::Numbering;
use crate::order::{is_decimal, numeric};

/// The longest text that is read.
const LARGEST: usize = 64 << 20;
/// The most ranks that are read: a short text must not become a large value.
const MOST_RANKS: usize = 1 << 20;
const HEADER: &str = "ranks/1";

/// Why a text is no numbering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberingError {
    /// It is longer than any.
    #[error("the numbering has {0} bytes, {LARGEST} are allowed")]
    TooLarge(usize),
    /// It has more ranks than any.
    #[error("line {0} of the numbering has more ranks than the {MOST_RANKS} that are allowed")]
    TooMany(usize),
    /// It is something else, or of a later version.
    #[error(
        "the numbering does not begin with {HEADER:?}: it is something else or of another version"
    )]
    Version,
    /// A line is not as it should be.
    #[error("line {line} of the numbering: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Devices whose ids and ranks both go up by one.
struct Run<'a> {
    device: &'a str,
    rank: u32,
    count: u32,
}

// === impl NumberingError ===

impl NumberingError {
    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge(_) | Self::TooMany(_) => "numbering-too-large",
            Self::Version => "numbering-version-unknown",
            Self::Line { .. } => "numbering-malformed",
        }
    }
}

// === impl Numbering ===

impl Numbering {
    /// The text of it; equal numberings have equal texts.
    pub fn write(&self) -> String {
        let mut servers: Vec<_> = self.ranks.iter().collect();
        servers.sort_unstable_by(|left, right| numeric(left.0, right.0));
        let mut out = format!("{HEADER}\n");
        for (server, devices) in servers {
            let mut devices: Vec<_> =
                devices.iter().map(|(device, rank)| (device.as_str(), *rank)).collect();
            devices.sort_unstable_by(|left, right| numeric(left.0, right.0));
            name(&mut out, server);
            for run in runs(&devices) {
                out.push(' ');
                name(&mut out, run.device);
                // Writing to a string never fails.
                let _ = match run.count {
                    1 => write!(out, "={}", run.rank),
                    count => write!(out, "+{count}={}", run.rank),
                };
            }
            out.push('\n');
        }
        out
    }

    /// Reads what [`Numbering::write`] wrote.
    pub fn read(text: &str) -> Result<Self, NumberingError> {
        if text.len() > LARGEST {
            return Err(NumberingError::TooLarge(text.len()));
        }
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line != HEADER) {
            return Err(NumberingError::Version);
        }
        let mut numbering = Self::default();
        let mut left = MOST_RANKS;
        for (line, content) in lines {
            let wrong = |problem| NumberingError::Line { line, problem };
            let mut words = content.split(' ');
            let server = words.next().and_then(named).ok_or_else(|| wrong("no server"))?;
            if numbering.ranks.contains_key(&server) {
                return Err(wrong("the server was there before"));
            }
            let mut any = false;
            for word in words {
                let run =
                    run(word).ok_or_else(|| wrong("a device is no ID=RANK or ID+COUNT=RANK"))?;
                let (device, rank, count) = run;
                left = left.checked_sub(count as usize).ok_or(NumberingError::TooMany(line))?;
                // A run has been looked at: neither its ids nor its ranks go beyond a u32.
                let first = if count > 1 { device.parse().unwrap_or(0) } else { 0_u32 };
                for step in 0..count {
                    let id = match step {
                        0 => device.clone(),
                        _ => first.saturating_add(step).to_string(),
                    };
                    if numbering.rank(&server, &id).is_some() {
                        return Err(wrong("a device is there twice"));
                    }
                    numbering.insert(&server, &id, rank.saturating_add(step));
                }
                any = true;
            }
            if !any {
                return Err(wrong("the server has no devices"));
            }
        }
        Ok(numbering)
    }
}

/// The runs in devices that are in order.
fn runs<'a>(devices: &[(&'a str, u32)]) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for (device, rank) in devices {
        let follows = |run: &&mut Run<'_>| {
            let next = number(run.device).and_then(|first| first.checked_add(run.count));
            next.is_some()
                && next == number(device)
                && run.rank.checked_add(run.count) == Some(*rank)
        };
        match runs.last_mut().filter(follows) {
            Some(run) => run.count += 1,
            None => runs.push(Run { device, rank: *rank, count: 1 }),
        }
    }
    runs
}

/// The first device, its rank, and how many there are.
fn run(word: &str) -> Option<(String, u32, u32)> {
    let (devices, rank) = word.split_once('=')?;
    let rank = number(rank)?;
    let Some((device, count)) = devices.split_once('+') else {
        return Some((named(devices)?, rank, 1));
    };
    let (first, count) = (number(device)?, number(count).filter(|count| *count > 1)?);
    first.checked_add(count - 1)?;
    rank.checked_add(count - 1)?;
    Some((device.to_owned(), rank, count))
}

fn number(text: &str) -> Option<u32> {
    is_decimal(text).then(|| text.parse().ok())?
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)
}

fn name(out: &mut String, name: &str) {
    if name.is_empty() {
        out.push('%');
    }
    for byte in name.bytes() {
        match is_plain(byte) {
            true => out.push(char::from(byte)),
            // Writing to a string never fails.
            false => drop(write!(out, "%{byte:02x}")),
        }
    }
}

fn named(text: &str) -> Option<String> {
    if text == "%" {
        return Some(String::new());
    }
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high << 4 | low).ok()?
            }
            byte => is_plain(byte).then_some(byte)?,
        });
    }
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
