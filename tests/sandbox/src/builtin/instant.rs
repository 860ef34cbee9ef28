//! Times as objects carry them: read as strictly as Kubernetes reads them, printed in UTC.

use jiff::Timestamp;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The canonical text of a time, or what is wrong with it.
pub(super) fn canonical(text: &str, micros: bool) -> Result<String, String> {
    let form = if micros { MICROS } else { SECONDS };
    if let Some((rest, part)) = unlike(text, micros) {
        return Err(format!(
            "parsing time {text:?} as \"{form}\": cannot parse {rest:?} as {part:?}"
        ));
    }
    let Ok(time) = text.parse::<Timestamp>() else {
        return Err(format!("parsing time {text:?}: {} out of range", out_of_range(text)));
    };
    Ok(if micros {
        time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    } else {
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    })
}

/// The first part of the form that the text does not have, with the rest of the text.
fn unlike(text: &str, micros: bool) -> Option<(&str, &'static str)> {
    let mut rest = text;
    for part in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let bytes = rest.as_bytes();
        let fits = match part {
            "-" | "T" | ":" => rest.starts_with(part),
            _ => bytes.len() >= part.len() && bytes[..part.len()].iter().all(u8::is_ascii_digit),
        };
        if !fits {
            return Some((rest, part));
        }
        rest = &rest[part.len()..];
    }
    let fraction = rest
        .strip_prefix('.')
        .map_or(0, |digits| digits.bytes().take_while(u8::is_ascii_digit).count());
    if micros && fraction != 6 {
        return Some((rest, ".000000"));
    }
    if fraction > 0 {
        rest = &rest[fraction + 1..];
    }
    let zone = rest.as_bytes();
    let offset = zone.len() == 6
        && matches!(zone[0], b'+' | b'-')
        && zone[3] == b':'
        && [1, 2, 4, 5].iter().all(|&at| zone[at].is_ascii_digit());
    (rest != "Z" && !offset).then_some((rest, "Z07:00"))
}

/// Which part of a well-formed time is too large.
fn out_of_range(text: &str) -> &'static str {
    let number = |from: usize| text.get(from..from + 2).and_then(|n| n.parse::<u8>().ok());
    match (number(5), number(11), number(14), number(17)) {
        (Some(month), ..) if !(1..=12).contains(&month) => "month",
        (_, Some(hour), ..) if hour > 23 => "hour",
        (_, _, Some(minute), _) if minute > 59 => "minute",
        (_, _, _, Some(second)) if second > 59 => "second",
        _ => "day",
    }
}
