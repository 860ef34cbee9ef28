//! Kubernetes quantities: `1500m`, `2Gi`, `1e3`, `0.5`. Integers only, no floats.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
/// The largest quantity, in nano units. Upstream's decimal ones have no bound.
const LARGEST: i128 = 10i128.pow(37);
/// The largest binary quantity, in nano units: 2^63-1 whole units, as upstream.
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANO;

/// An amount, with the family of suffixes that it was written in.
///
/// Equality and order are about the amount alone: `1` equals `1000m`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    family: Family,
}

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `Ki`, `Mi`, `Gi` ...
    Binary,
    /// `m`, `k`, `M`, `G` ...
    Decimal,
    /// `e3`, `e6` ...
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Neither a number nor a known suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    /// A number with an unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

// === impl Quantity ===

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nano: 0, family: Family::Decimal };

    /// That many whole units.
    pub fn whole(units: i64) -> Quantity {
        Quantity { nano: i128::from(units) * NANO, family: Family::Decimal }
    }

    /// That many thousandths.
    pub fn milli(thousandths: i64) -> Quantity {
        Quantity { nano: i128::from(thousandths) * (NANO / 1000), family: Family::Decimal }
    }

    /// The amount in billionths.
    pub fn as_nano(self) -> i128 {
        self.nano
    }

    /// The amount in thousandths, rounded up.
    pub fn as_milli(self) -> i128 {
        div_up(self.nano, NANO / 1000)
    }

    /// The amount in whole units, rounded up.
    pub fn as_units(self) -> i64 {
        i64::try_from(div_up(self.nano, NANO)).unwrap_or(i64::MAX)
    }

    /// How it is written.
    pub fn family(self) -> Family {
        self.family
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    fn bounded(nano: i128, family: Family) -> Quantity {
        let largest = if family == Family::Binary { LARGEST_BINARY } else { LARGEST };
        Quantity { nano: nano.clamp(-largest, largest), family }
    }
}

/// Division that rounds away from zero.
fn div_up(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

fn power_of_ten(exponent: u32) -> Option<i128> {
    10i128.checked_pow(exponent)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Form);
        }
        let (scale, family) = suffix_scale(suffix)?;
        let nano = amount(whole, fraction, scale);
        Ok(Quantity::bounded(if negative { -nano } else { nano }, family))
    }
}

/// By what a number is multiplied.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

fn suffix_scale(suffix: &str) -> Result<(Scale, Family), QuantityError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Scale::Ten(*power), Family::Decimal));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Scale::Two(*power), Family::Binary));
    }
    let known = |c: char| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit();
    if !suffix.chars().all(known) {
        return Err(QuantityError::Form);
    }
    let digits = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Suffix);
    }
    // far beyond any bound; what is larger changes nothing
    let power = unsigned.parse::<i32>().unwrap_or(1000).min(1000);
    let power = if digits.starts_with('-') { -power } else { power };
    Ok((Scale::Ten(power), Family::Exponent))
}

/// The amount in nano units, rounded up, capped at [`LARGEST`].
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return 0;
    }
    // value = digits * 10^exponent [* 2^power], in units; nano adds 9
    let (exponent, power) = match scale {
        Scale::Ten(power) => (power, 0),
        Scale::Two(power) => (0, power),
    };
    // what follows more digits than these is lost, as it is far below any bound
    let room: i128 = if power > 0 { 10i128.pow(18) } else { 10i128.pow(36) };
    let mut value: i128 = 0;
    let mut lost = false;
    let mut left = i64::from(exponent) + 9;
    for (i, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let in_whole = i < whole.len();
        if value >= room {
            lost |= digit != b'0';
            left += i64::from(in_whole);
        } else {
            value = value * 10 + i128::from(digit - b'0');
            left -= i64::from(!in_whole);
        }
    }
    value <<= power;
    if lost && left <= 0 {
        value += 1;
    }
    let nano = match u32::try_from(left.unsigned_abs()) {
        Ok(shift) if left >= 0 => {
            power_of_ten(shift).and_then(|factor| value.checked_mul(factor)).unwrap_or(LARGEST)
        }
        Ok(shift) => match power_of_ten(shift) {
            Some(factor) => div_up(value, factor),
            None => 1,
        },
        Err(_) if left >= 0 => LARGEST,
        Err(_) => 1,
    };
    nano.min(LARGEST)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let whole = self.nano % NANO == 0;
        let units = self.nano / NANO;
        // small or broken amounts have no binary form
        if self.family == Family::Binary && whole && units.abs() >= 1024 {
            let (suffix, power) = BINARY
                .iter()
                .rev()
                .find(|(_, power)| units % (1i128 << power) == 0)
                .map_or(("", 0), |(suffix, power)| (*suffix, *power));
            return write!(f, "{}{suffix}", units >> power);
        }
        let (mut mantissa, mut exponent) = (self.nano, -9i32);
        let last = if self.family == Family::Exponent { 30 } else { 18 };
        while mantissa % 1000 == 0 && exponent < last {
            mantissa /= 1000;
            exponent += 3;
        }
        match self.family {
            Family::Exponent if exponent == 0 => write!(f, "{mantissa}"),
            Family::Exponent => write!(f, "{mantissa}e{exponent}"),
            Family::Binary | Family::Decimal => {
                let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
                write!(f, "{mantissa}{suffix}")
            }
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

/// A zero takes the family of what is added to it, as upstream does.
impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        let family = if self.nano == 0 { other.family } else { self.family };
        Quantity::bounded(self.nano.saturating_add(other.nano), family)
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        let family = if self.nano == 0 { other.family } else { self.family };
        Quantity::bounded(self.nano.saturating_sub(other.nano), family)
    }
}
