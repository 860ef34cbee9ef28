//! Durations as Go writes them: `1h30m`, `-1s`, `2m0s`.

const NANOS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration, in nanoseconds. Nothing if it is none, or longer than 292 years.
pub fn read(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let unit_ends = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_ends)?;
        let (_, nanos) = NANOS.iter().find(|(name, _)| *name == unit)?;
        total += number(whole)?.checked_mul(*nanos)?;
        // 18 digits are finer than a nanosecond of any unit.
        let part = part.get(..part.len().min(18)).unwrap_or(part);
        let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
        total += number(part)?.checked_mul(*nanos)? / scale;
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return None;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Writes a duration of so many nanoseconds.
pub fn write(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
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

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// No digits are none; more than 20 are no duration.
fn number(digits: &str) -> Option<i128> {
    match digits.len() {
        0 => Some(0),
        1..=20 => digits.parse().ok(),
        _ => None,
    }
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
    use super::*;

    #[test]
    fn what_is_read_is_written_as_go_writes_it() {
        let pairs = [
            ("30s", "30s"),
            ("2m", "2m0s"),
            ("90m", "1h30m0s"),
            ("-1s", "-1s"),
            ("+5ms", "5ms"),
            ("0", "0s"),
            ("1.5h", "1h30m0s"),
            (".5s", "500ms"),
            ("1h0.25s", "1h0m0.25s"),
            ("1500us", "1.5ms"),
            ("3µs7ns", "3.007µs"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ];
        for (given, expected) in pairs {
            assert_eq!(read(given).map(write).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in ["", "-", "5", "ten minutes", "5 m", "1d", ".s", "1.", "s", "2562048h", "--1s"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
