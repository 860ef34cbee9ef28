//! Durations as Go writes them (`1h30m`, `5m0s`, `-1s`), and with days and weeks as KAI's arguments allow.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, de};

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const LONG_UNITS: [(&str, u64); 2] = [("d", 86_400_000_000_000), ("w", 604_800_000_000_000)];

/// Go's durations are 64 bits of nanoseconds: no number that it reads is beyond this.
const LIMIT: u64 = 1 << 63;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration: write numbers with units, such as 1h30m, 90s or 500ms")]
pub struct DurationError(String);

/// Reads what Go's `time.ParseDuration` reads.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    read(text, &[]).ok_or_else(|| DurationError(text.chars().take(64).collect()))
}

/// The same, with `d` for days and `w` for weeks.
pub fn parse_long(text: &str) -> Result<SignedDuration, DurationError> {
    read(text, &LONG_UNITS).ok_or_else(|| DurationError(text.chars().take(64).collect()))
}

/// Whether Go reads it.
pub fn is_duration(text: &str) -> bool {
    read(text, &[]).is_some()
}

/// Prints a duration as Go does. What is longer than Go's longest is printed as that.
pub fn print(span: SignedDuration) -> String {
    let nanos = span.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let all =
        u64::try_from(nanos.unsigned_abs()).unwrap_or(u64::MAX).min(LIMIT - u64::from(nanos > 0));
    let shown = match all {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(all, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(all, 1_000_000)),
        _ => {
            let (minutes, seconds) = (all / 60_000_000_000, all % 60_000_000_000);
            let seconds = decimal(seconds, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{shown}")
}

/// For `deserialize_with`: an optional duration, as text or as billionths of a second.
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
        Some(Written::Nanos(nanos)) => Ok(Some(SignedDuration::from_nanos(nanos))),
        Some(Written::Text(text)) => parse(&text).map(Some).map_err(de::Error::custom),
    }
}

fn read(text: &str, more: &[(&str, u64)]) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let (_, unit) = UNITS.iter().chain(more).find(|(known, _)| *known == name)?;
        let number = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
        let part = number.checked_mul(*unit)?.checked_add(part_of(fraction, *unit))?;
        total = total.checked_add(part).filter(|total| *total <= LIMIT)?;
        rest = after;
    }
    let nanos = if negative { -i128::from(total) } else { i128::from(total) };
    i64::try_from(nanos).ok().map(SignedDuration::from_nanos)
}

/// So much of a unit, cut to nanoseconds. 18 digits are finer than a nanosecond of any unit.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let (mut sum, mut scale): (u128, u128) = (0, 1);
    for byte in fraction.bytes().take(18) {
        sum = sum * 10 + u128::from(byte - b'0');
        scale *= 10;
    }
    u64::try_from(sum * u128::from(unit) / scale).unwrap_or(u64::MAX)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn decimal(all: u64, unit: u64) -> String {
    let (whole, part) = (all / unit, all % unit);
    if part == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    let part = format!("{part:0places$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_is_printed_as_go_prints_it() {
        let pairs = [
            ("30s", "30s"),
            ("2m", "2m0s"),
            ("90m", "1h30m0s"),
            ("5m0s", "5m0s"),
            ("-1s", "-1s"),
            ("-1.5s", "-1.5s"),
            ("+5ms", "5ms"),
            ("0", "0s"),
            ("1.5h", "1h30m0s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1h0.25s", "1h0m0.25s"),
            ("1500us", "1.5ms"),
            ("3µs7ns", "3.007µs"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", "-2562047h47m16.854775808s"),
        ];
        for (given, expected) in pairs {
            assert_eq!(parse(given).map(print).as_deref(), Ok(expected), "{given}");
        }
        assert_eq!(print(SignedDuration::MAX), "2562047h47m16.854775807s");
    }

    #[test]
    fn days_and_weeks_are_read_where_kai_reads_them() {
        assert_eq!(parse_long("1w2d").unwrap().as_hours(), 9 * 24);
        assert!(parse("1d").is_err());
    }

    #[test]
    fn a_text_that_is_no_duration_is_refused() {
        let bad = [
            "",
            "-",
            "5",
            "ten minutes",
            "5 m",
            "1x",
            "1d",
            ".s",
            "1.",
            "s",
            "m",
            "--1s",
            "1.2.3s",
            "1h ",
            "2562048h",
            "9999999999999h",
            "99999999999999999999999s",
            "2562047h47m16.854775808s",
        ];
        for text in bad {
            assert!(parse(text).is_err() && !is_duration(text), "{text}");
        }
        assert!(parse("1x").unwrap_err().to_string().starts_with("`1x` is no duration: write "));
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_not(text in "\\PC{0,20}|[-+0-9.hmsnuµ]{0,40}") {
            if let Ok(span) = parse(&text) {
                prop_assert_eq!(parse_long(&text), Ok(span));
            }
        }

        #[test]
        fn what_is_printed_is_read_back_as_the_same(nanos in any::<i64>()) {
            let span = SignedDuration::from_nanos(nanos);
            prop_assert_eq!(parse(&print(span)), Ok(span));
        }
    }
}
