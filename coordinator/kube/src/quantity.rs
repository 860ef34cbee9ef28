//! Kubernetes quantities: `1500m`, `2Gi`, `1e3`, `0.5`. Integers only, no floats.
//!
//! | who reads | how | what is too large or negative |
//! |---|---|---|
//! | what Kubernetes would store | [`str::parse`], [`Quantity::of_json`] | capped as upstream caps it; negative is read |
//! | what somebody counts with | [`Quantity::amount`], serde | refused by name |
//! | what is only passed on | [`QuantityText`] | stays as it is written |

mod amount;
mod read;
#[cfg(test)]
mod tests;
mod text;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};

use serde_json::Value;

pub use amount::AmountError;
pub use read::QuantityError;
pub use text::{QuantityText, QuantityTexts};

const NANO: i128 = 1_000_000_000;
/// The largest quantity, in nano units. Upstream's decimal ones have no bound.
const LARGEST: i128 = 10i128.pow(37);
/// The largest binary quantity, in nano units: 2^63-1 whole units, as upstream.
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANO;

/// An amount, with the family of suffixes that it was written in.
///
/// Equality and order are about the amount alone: `1` equals `1000m`.
///
/// Billionths and family share one integer: the scheduler holds many of these, and no amount needs the two highest bits.
#[derive(Clone, Copy)]
pub struct Quantity(i128);

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `m`, `k`, `M`, `G` ...
    Decimal,
    /// `Ki`, `Mi`, `Gi` ...
    Binary,
    /// `e3`, `e6` ...
    Exponent,
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
    /// An amount of zero.
    pub const ZERO: Quantity = Quantity(0);

    /// That many whole units.
    pub fn from_units(units: i64) -> Quantity {
        Self::new(i128::from(units) * NANO, Family::Decimal)
    }

    /// That many thousandths.
    pub fn from_milli(thousandths: i64) -> Quantity {
        Self::new(i128::from(thousandths) * (NANO / 1000), Family::Decimal)
    }

    /// Reads a JSON text or number; none if it is no quantity.
    pub fn of_json(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }

    /// The amount in billionths.
    pub fn nano(self) -> i128 {
        self.0 >> 2
    }

    /// The amount in thousandths, rounded up and capped at the largest number.
    pub fn milli(self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// The amount in whole units, rounded up as Kubernetes counts bytes and devices, and capped at the largest number.
    pub fn units(self) -> i64 {
        self.scaled(NANO)
    }

    /// The amount in whole units, if it has no fraction and fits.
    pub fn exact_units(self) -> Option<i64> {
        self.is_whole().then_some(())?;
        i64::try_from(self.nano() / NANO).ok()
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.nano() % NANO == 0
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nano() == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// How it is written.
    pub fn family(self) -> Family {
        match self.0 & 3 {
            1 => Family::Binary,
            2 => Family::Exponent,
            _ => Family::Decimal,
        }
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, count: i64) -> Quantity {
        Self::new(self.nano().saturating_mul(i128::from(count)), self.family())
    }

    /// The larger one; this one, with its family, if they are as much.
    #[must_use]
    pub fn or_more(self, other: Quantity) -> Quantity {
        if other > self { other } else { self }
    }

    /// The amount without multiples: `2147483648`, `1500m`, `7n`. KAI's statuses are written so.
    pub fn plain(self) -> String {
        let nano = self.nano();
        match (nano % NANO, nano % (NANO / 1000)) {
            (0, _) => (nano / NANO).to_string(),
            (_, 0) => format!("{}m", nano / (NANO / 1000)),
            _ => format!("{nano}n"),
        }
    }

    fn scaled(self, unit: i128) -> i64 {
        let scaled = div_up(self.nano(), unit);
        i64::try_from(scaled).unwrap_or(if scaled < 0 { i64::MIN } else { i64::MAX })
    }

    /// Caps the amount as upstream does.
    fn new(nano: i128, family: Family) -> Quantity {
        let largest = if family == Family::Binary { LARGEST_BINARY } else { LARGEST };
        let family = match family {
            Family::Decimal => 0,
            Family::Binary => 1,
            Family::Exponent => 2,
        };
        Quantity((nano.clamp(-largest, largest) << 2) | family)
    }

    /// The family of a sum: a zero takes that of what is added to it, as upstream does.
    fn family_with(self, other: Quantity) -> Family {
        if self.is_zero() { other.family() } else { self.family() }
    }
}

/// Division that rounds away from zero.
fn div_up(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nano, family) = (self.nano(), self.family());
        if nano == 0 {
            return f.write_str("0");
        }
        let units = nano / NANO;
        // small or broken amounts have no binary form
        if family == Family::Binary && self.is_whole() && units.abs() >= 1024 {
            let (suffix, power) = BINARY
                .iter()
                .rev()
                .find(|(_, power)| units % (1i128 << power) == 0)
                .map_or(("", 0), |(suffix, power)| (*suffix, *power));
            return write!(f, "{}{suffix}", units >> power);
        }
        let (mut mantissa, mut exponent) = (nano, -9i32);
        let last = if family == Family::Exponent { 30 } else { 18 };
        while mantissa % 1000 == 0 && exponent < last {
            mantissa /= 1000;
            exponent += 3;
        }
        match family {
            Family::Exponent if exponent == 0 => write!(f, "{mantissa}"),
            Family::Exponent => write!(f, "{mantissa}e{exponent}"),
            Family::Binary | Family::Decimal => {
                let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
                write!(f, "{mantissa}{suffix}")
            }
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano() == other.nano()
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
        self.nano().cmp(&other.nano())
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nano().hash(state);
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        Quantity::new(self.nano() + other.nano(), self.family_with(other))
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        Quantity::new(self.nano() - other.nano(), self.family_with(other))
    }
}
