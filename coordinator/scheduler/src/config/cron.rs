//! Instants that come again and again: minute, hour, day of the month, month, day of the week, in UTC.

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};

/// Further back than any expression that ever holds: a 29th of February on a given weekday.
const DAYS: i64 = 366 * 41;

/// When something begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day and weekday are both restricted: then either is enough.
    either: bool,
}

// === impl Cron ===

impl Cron {
    /// Reads five fields, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    ///
    /// # Errors
    /// What is wrong, and what helps.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            let count = fields.len();
            return Err(format!("it has {count} fields: write minute hour day month weekday"));
        };
        let weekdays = set(weekday, 0, 7, &WEEKDAYS, "weekday")?;
        Ok(Self {
            minutes: set(minute, 0, 59, &[], "minute")?,
            hours: set(hour, 0, 23, &[], "hour")?,
            days: set(day, 1, 31, &[], "day")?,
            months: set(month, 1, 12, &MONTHS, "month")?,
            // Sunday is 0 and 7.
            weekdays: weekdays | (weekdays >> 7 & 1),
            either: !day.starts_with('*') && !weekday.starts_with('*'),
        })
    }

    /// The last of its instants before this one; none in living memory.
    pub fn before(&self, now: Timestamp) -> Option<Timestamp> {
        // An instant is before itself if it is a moment later.
        let now = now.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let mut date = now.date();
        let mut last = (now.hour(), now.minute());
        for _ in 0..DAYS {
            if self.has_day(date)
                && let Some((hour, minute)) = self.time_up_to(last)
            {
                let at = date.at(hour, minute, 0, 0).to_zoned(TimeZone::UTC).ok()?;
                return Some(at.timestamp());
            }
            date = date.yesterday().ok()?;
            last = (23, 59);
        }
        None
    }

    fn has_day(&self, date: civil::Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let both = if self.either { day || weekday } else { day && weekday };
        has(self.months, date.month()) && both
    }

    fn time_up_to(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        let last = |set: u64, most: i8| (0..=most).rev().find(|one| has(set, *one));
        if has(self.hours, hour)
            && let Some(minute) = last(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        let hour = last(self.hours, hour.checked_sub(1).filter(|hour| *hour >= 0)?)?;
        Some((hour, last(self.minutes, 59)?))
    }
}

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS: [&str; 13] =
    ["", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set >> number & 1 == 1)
}

/// The numbers of a field, as bits: `*`, `3`, `1-5`, `*/15`, `1-9/2`, and lists of these.
fn set(text: &str, least: u32, most: u32, names: &[&str], field: &str) -> Result<u64, String> {
    let wrong =
        || format!("{field} {text:?}: write *, or numbers from {least} to {most} like 1-5 or */2");
    let number = |text: &str| {
        let named =
            names.iter().position(|name| !name.is_empty() && name.eq_ignore_ascii_case(text));
        let found = match named {
            Some(at) => u32::try_from(at).ok(),
            None => text.parse().ok(),
        };
        found.filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step: u32 = step.parse().ok().filter(|step| *step > 0).ok_or_else(wrong)?;
                (range, step)
            }
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(wrong());
        }
        let mut at = from;
        while at <= to {
            bits |= 1 << at;
            at = at.saturating_add(step);
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instant_before_another_is_found() {
        for (cron, now, last) in [
            ("0 * * * *", "2026-03-04T05:06:07Z", "2026-03-04T05:00:00Z"),
            ("0 * * * *", "2026-03-04T05:00:00Z", "2026-03-04T04:00:00Z"),
            ("*/15 9-17 * * MON-FRI", "2026-03-08T12:00:00Z", "2026-03-06T17:45:00Z"),
            ("@monthly", "2026-03-01T00:00:01Z", "2026-03-01T00:00:00Z"),
            ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("30 6 1,15 * 7", "2026-03-10T00:00:00Z", "2026-03-08T06:30:00Z"),
        ] {
            let before = Cron::parse(cron).unwrap().before(now.parse().unwrap());
            assert_eq!(before, Some(last.parse().unwrap()), "{cron} before {now}");
        }
        assert_eq!(
            Cron::parse("0 0 30 2 *").unwrap().before("2026-03-01T00:00:00Z".parse().unwrap()),
            None
        );
    }

    #[test]
    fn what_is_no_expression_is_refused_with_a_remedy() {
        for (text, word) in [
            ("0 0 * *", "4 fields"),
            ("60 * * * *", "minute"),
            ("* * * JUK *", "month"),
            ("*/0 * * * *", "minute"),
            ("5-1 * * * *", "from 0 to 59"),
        ] {
            let error = Cron::parse(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
