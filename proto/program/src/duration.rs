//! Lengths of time as people write them.

use std::time::Duration;

/// No setting is longer: what is added to a moment must not go beyond the end of time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// `90`, `90s`, `10m`, `1h30m`, `500ms`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time: try 10s, 10m or 1h30m");
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(sum) }
}

/// A length of time that is neither too short nor too long to be meant.
pub fn setting(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        time if time > LONGEST => Err(format!("{text} is longer than a year")),
        time if time < Duration::from_millis(100) => {
            Err(format!("{text} is too short: 100ms at least"))
        }
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "m",
            "10x",
            "-1s",
            "1.5s",
            "10m5",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, millis) in
            [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000), ("3", 3000)]
        {
            assert_eq!(setting(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "s", "-1s", "1d", "1.5s", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(setting(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_not(text in "\\PC{0,20}|[0-9hms]{0,30}") {
            let _told = parse(&text);
        }
    }
}
