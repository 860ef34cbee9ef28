//! Versions (semver 2.0).

use std::{cmp::Ordering, fmt};

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    before: Vec<Part>,
}

/// A part of what comes after the `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

// === impl Version ===

impl Version {
    /// Reads `1.2.3-rc.1+build`; what is built does not count.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, before) = match text.split_once('-') {
            Some((numbers, before)) => (numbers, Some(before)),
            None => (text, None),
        };
        let mut parts = numbers.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        if parts.next().is_some() {
            return None;
        }
        let part = |text: &str| {
            let known =
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            let digits = text.chars().all(|c| c.is_ascii_digit());
            match (known, digits) {
                (false, _) => None,
                (true, true) => Some(Part::Number(number(text)?)),
                (true, false) => Some(Part::Text(text.to_owned())),
            }
        };
        let before = match before {
            Some(text) => text.split('.').map(part).collect::<Option<Vec<_>>>()?,
            None => Vec::new(),
        };
        Some(Self { numbers, before })
    }

    /// The same for people who write `v1` or `1.02`.
    pub fn parse_loosely(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut parts: Vec<&str> = numbers
            .split('.')
            .map(|part| match part.trim_start_matches('0') {
                "" if !part.is_empty() => "0",
                stripped => stripped,
            })
            .collect();
        if parts.len() > 3 {
            return None;
        }
        parts.resize(3, "0");
        Self::parse(&format!("{}{rest}", parts.join(".")))
    }

    /// The first, second or third number.
    pub fn number(&self, at: usize) -> i64 {
        let number = self.numbers.get(at).copied().unwrap_or(0);
        i64::try_from(number).unwrap_or(i64::MAX)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.before.cmp(&other.before),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Digits without a zero before them.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}
