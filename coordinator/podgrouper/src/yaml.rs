//! One YAML scalar, quoted where a reader would take it for something else than text.

/// The text as a scalar.
pub fn scalar(text: &str) -> String {
    let special = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if text.chars().any(special) || means_something(text) {
        return format!("\"{}\"", escaped(text));
    }
    match is_plain(text) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            '\u{feff}' => out.push_str("\\uFEFF"),
            c if c.is_control() => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Whether a reader sees nothing, a truth value, a number or a time.
fn means_something(text: &str) -> bool {
    const WORDS: [&str; 29] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", ".nan",
        ".NaN", ".NAN", "<<", "y", "Y", "n", "N", "yes", "Yes", "YES", "no", "No", "NO", "on",
        "On", "ON", "off",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    WORDS.contains(&text)
        || ["Off", "OFF"].contains(&text)
        || [".inf", ".Inf", ".INF"].contains(&unsigned)
        || is_int(&text.replace('_', ""))
        || is_float(&text.replace('_', ""))
        || is_time(text)
        || is_base_60(text)
}

/// Decimal, or with one of the prefixes.
fn is_int(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let all =
        |digits: &str, radix: u32| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    match lower.get(..2) {
        Some("0x") => all(lower.get(2..).unwrap_or_default(), 16),
        Some("0b") => all(lower.get(2..).unwrap_or_default(), 2),
        Some("0o") => all(lower.get(2..).unwrap_or_default(), 8),
        _ => all(&lower, 10),
    }
}

/// Digits with a point or an exponent.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let mantissa = match mantissa.split_once('.') {
        Some((whole, part)) => {
            digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty())
        }
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa && exponent
}

/// `2026-01-02`, with or without a time of the day.
fn is_time(text: &str) -> bool {
    let number = |text: &str, longest: usize, most: u32| {
        (1..=longest).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse::<u32>().is_ok_and(|number| number <= most)
    };
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else {
        return false;
    };
    let date =
        year.len() == 4 && number(year, 4, 9999) && number(month, 2, 12) && number(day, 2, 31);
    let Some(time) = time else { return date };
    let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let mut parts = time.get(..zone).unwrap_or_default().split(':');
    let (hour, minute, second) = (parts.next(), parts.next(), parts.next());
    let (Some(hour), Some(minute), Some(second), None) = (hour, minute, second, parts.next())
    else {
        return false;
    };
    let second = second.split_once('.').map_or(second, |(second, _)| second);
    date && number(hour, 2, 23) && number(minute, 2, 59) && number(second, 2, 59)
}

/// `1:20`, which old readers take for eighty.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(digit) {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let sixty = |part: &str| part.len() <= 2 && part.parse::<u8>().is_ok_and(|number| number < 60);
    let last = rest.len().saturating_sub(1);
    !rest.is_empty()
        && rest.iter().enumerate().all(|(at, part)| match part.split_once('.') {
            Some((whole, part)) if at == last => sixty(whole) && part.bytes().all(digit),
            _ => sixty(part),
        })
}

fn is_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    let begins = match first {
        Some('-' | '?' | ':') => second.is_some_and(|c| c != ' '),
        Some(c) => !" #,[]{}&*!|>'\"%@`".contains(c),
        None => false,
    };
    begins
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_something_else_is_quoted() {
        for text in ["", "123", "1e3", "true", "0x1f", "null", "yes", "1_000", "2026-01-02", "1:20"]
        {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
        for text in ["~", "-.inf", "0b1", "0o17", ".5", "5.", "OFF", "2026-1-2 3:4:5"] {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
    }

    #[test]
    fn names_and_uids_stand_plain() {
        let plain =
            ["dist", "uid-1", "a.b-c", "5f3e-11", "0f8c1d2e-1", "v1", "1.2.3", "e3", "1:99", "0xg"];
        for text in plain {
            assert_eq!(scalar(text), text);
        }
    }

    #[test]
    fn what_has_meaning_to_yaml_is_quoted_once() {
        assert_eq!(scalar("- a"), "'- a'");
        assert_eq!(scalar("a: b"), "'a: b'");
        assert_eq!(scalar("'"), "''''");
        assert_eq!(scalar("a\nb\"\\"), "\"a\\nb\\\"\\\\\"");
    }
}
