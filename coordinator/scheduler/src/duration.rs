//! Spans of time as Go writes them (`1h30m`, `5m0s`, `-1s`), and with days and weeks as KAI's arguments allow.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, de};

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const LONG_UNITS: [(&str, i128); 2] = [("d", 86_400_000_000_000), ("w", 604_800_000_000_000)];

/// Why a text is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration: write numbers with units, such as 1h30m, 90s or 500ms")]
pub struct DurationError(String);

/// Reads what Go's `time.ParseDuration` reads.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    read(text, &UNITS, &[])
}

/// The same, with `d` for days and `w` for weeks.
pub fn parse_long(text: &str) -> Result<SignedDuration, DurationError> {
    read(text, &UNITS, &LONG_UNITS)
}

/// A span from so many billionths of a second.
pub fn from_nanos(nanos: i64) -> SignedDuration {
    SignedDuration::from_nanos(nanos)
}

/// For `deserialize_with`: an optional span, as text or as billionths of a second.
pub fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SignedDuration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Nanos(i64),
        Text(String),
    }
    match Option::<Written>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Written::Nanos(nanos)) => Ok(Some(from_nanos(nanos))),
        Some(Written::Text(text)) => parse(&text).map(Some).map_err(de::Error::custom),
    }
}

fn read(
    text: &str,
    units: &[(&str, i128)],
    more: &[(&str, i128)],
) -> Result<SignedDuration, DurationError> {
    let error = || DurationError(text.chars().take(64).collect());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() || text.len() > 64 {
        return Err(error());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(error());
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (suffix, after) = after.split_at(end);
        let unit = units.iter().chain(more).find(|(name, _)| *name == suffix);
        let (_, unit) = unit.ok_or_else(error)?;
        let amount =
            if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| error())? };
        total += i128::from(amount) * unit;
        let mut part = *unit;
        for byte in fraction.bytes() {
            part /= 10;
            total += part * i128::from(byte - b'0');
        }
        rest = after;
    }
    let nanos = i64::try_from(total).map_err(|_| error())?;
    Ok(from_nanos(if negative { -nanos } else { nanos }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        let secs = |text| parse(text).unwrap().as_secs_f64();
        assert_eq!(secs("1h30m"), 5400.0);
        assert_eq!(secs("5m0s"), 300.0);
        assert_eq!(secs("-1.5s"), -1.5);
        assert_eq!(secs("500ms"), 0.5);
        assert_eq!(secs("0"), 0.0);
        for bad in ["", "5", "1x", "1d", "m", "--1s", "1.2.3s", "9999999999999h", "1h "] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_long("1w2d").unwrap().as_hours(), 9 * 24);
    }
}
