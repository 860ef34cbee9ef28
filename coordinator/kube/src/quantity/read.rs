//! The grammar of quantities: a number and a suffix.

use std::str::FromStr;

use super::{BINARY, DECIMAL, Family, LARGEST, Quantity, div_up};

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

/// What a text says before anything is capped.
pub(super) struct Read {
    pub(super) negative: bool,
    /// Billionths, rounded up; [`LARGEST`] if there are more.
    pub(super) nano: i128,
    pub(super) family: Family,
}

/// By what a number is multiplied.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let Read { negative, nano, family } = Read::parse(text)?;
        Ok(Quantity::new(if negative { -nano } else { nano }, family))
    }
}

// === impl Read ===

impl Read {
    pub(super) fn parse(text: &str) -> Result<Self, QuantityError> {
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
        Ok(Self { negative, nano: nanos(whole, fraction, scale), family })
    }
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
fn nanos(whole: &str, fraction: &str, scale: Scale) -> i128 {
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
    let ten = |shift| 10i128.checked_pow(shift);
    let nano = match u32::try_from(left.unsigned_abs()) {
        Ok(shift) if left >= 0 => {
            ten(shift).and_then(|factor| value.checked_mul(factor)).unwrap_or(LARGEST)
        }
        Ok(shift) => ten(shift).map_or(1, |factor| div_up(value, factor)),
        Err(_) if left >= 0 => LARGEST,
        Err(_) => 1,
    };
    nano.min(LARGEST)
}
