//! Amounts of resources, in the grammar of Kubernetes: `1500m`, `2Gi`, `1e3`, `0.5`.
//!
//! Kubernetes caps what is too large at 2^63 - 1 and lets negative amounts through. A scheduler that counts
//! with such numbers is wrong without a word, so both are refused here, by name.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

const NANO: i128 = 1_000_000_000;
const MAX_NANO: i128 = i64::MAX as i128 * NANO;
/// More digits than this say nothing that fits.
const MAX_LEN: usize = 64;

/// An amount that is not negative, to a billionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nano: i128,
}

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is no number with a unit.
    #[error("`{0}` is no quantity: write a number and a unit, such as 1500m, 2Gi or 1e3")]
    Malformed(String),
    /// It is below zero.
    #[error("`{0}` is negative: write an amount of zero or more")]
    Negative(String),
    /// It is more than 2^63 - 1.
    #[error("`{0}` is more than 2^63 - 1: write a smaller amount")]
    Overflow(String),
}

// === impl Quantity ===

impl Quantity {
    /// So many whole units.
    pub fn whole(units: u32) -> Self {
        Self { nano: i128::from(units) * NANO }
    }

    /// Reads `1500m`, `2Gi`, `1e3`, `0.5`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let shown = || text.chars().take(MAX_LEN).collect::<String>();
        let malformed = || QuantityError::Malformed(shown());
        if text.len() > MAX_LEN {
            return Err(malformed());
        }
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let unit = Unit::parse(suffix).ok_or_else(malformed)?;
        match unit.apply(whole, fraction) {
            Some(nano) if negative && nano > 0 => Err(QuantityError::Negative(shown())),
            Some(nano) if nano <= MAX_NANO => Ok(Self { nano }),
            _ if negative => Err(QuantityError::Negative(shown())),
            _ => Err(QuantityError::Overflow(shown())),
        }
    }

    /// Whole units, rounded up, as Kubernetes counts bytes and devices.
    pub fn value(self) -> i64 {
        self.scaled(NANO)
    }

    /// Thousandths, rounded up, as Kubernetes counts processors. Capped at 2^63 - 1.
    pub fn milli(self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Both together, if that can be written.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nano = self.nano.checked_add(other.nano)?;
        (nano <= MAX_NANO).then_some(Self { nano })
    }

    fn scaled(self, unit: i128) -> i64 {
        let up = self.nano / unit + i128::from(self.nano % unit != 0);
        i64::try_from(up).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano % NANO == 0 {
            write!(f, "{}", self.nano / NANO)
        } else if self.nano % (NANO / 1000) == 0 {
            write!(f, "{}m", self.nano / (NANO / 1000))
        } else {
            write!(f, "{}n", self.nano)
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"1500m\" or 2")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::parse(text).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// What a suffix multiplies by.
enum Unit {
    /// A power of ten.
    Ten(i32),
    /// A power of two.
    Two(u32),
}

// === impl Unit ===

impl Unit {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "" => Self::Ten(0),
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // An exponent beyond i32 is as good as the largest: it overflows, or leaves a billionth.
                let huge = if exponent.starts_with('-') { i32::MIN } else { i32::MAX };
                Self::Ten(exponent.parse().unwrap_or(huge))
            }
        })
    }

    /// The number in billionths, rounded up; none if it is too large.
    fn apply(&self, whole: &str, fraction: &str) -> Option<i128> {
        let mut digits: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            digits = digits.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
        }
        if digits == 0 {
            return Some(0);
        }
        let places = i32::try_from(fraction.len()).ok()?;
        let (factor, ten) = match *self {
            Self::Ten(power) => (1, power.saturating_add(9).saturating_sub(places)),
            Self::Two(power) => (1i128 << power, 9 - places),
        };
        let product = digits.checked_mul(factor)?;
        match u32::try_from(ten) {
            Ok(ten) => product.checked_mul(10i128.checked_pow(ten)?),
            Err(_) => Some(match 10i128.checked_pow(ten.unsigned_abs()) {
                // Less than a billionth counts as one.
                Some(scale) => product / scale + i128::from(product % scale != 0),
                None => 1,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn an_amount_is_read_in_every_unit() {
        assert_eq!(read("1500m").milli(), 1500);
        assert_eq!(read("2").milli(), 2000);
        assert_eq!(read("0.5").milli(), 500);
        assert_eq!(read(".5").milli(), 500);
        assert_eq!(read("1.").value(), 1);
        assert_eq!(read("2Gi").value(), 2 << 30);
        assert_eq!(read("1.5Gi").value(), 3 << 29);
        assert_eq!(read("1e3").value(), 1000);
        assert_eq!(read("1E3").value(), 1000);
        assert_eq!(read("1E").value(), 1_000_000_000_000_000_000);
        assert_eq!(read("12e-1").milli(), 1200);
        assert_eq!(read("100u").milli(), 1, "thousandths are rounded up");
        assert_eq!(read("1n").value(), 1, "units are rounded up");
        assert_eq!(read("1e-100").value(), 1);
        assert_eq!(read("0e999999999999").value(), 0);
        assert_eq!(read("-0").value(), 0);
    }

    #[test]
    fn what_is_no_amount_is_refused_by_name() {
        for text in ["", "-", "abc", "1.2.3", "1 Gi", "1gi", "1e", "1e+", "Gi", "1e1.5", "٣"] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::Malformed(_))), "{text}");
        }
        for text in ["-1", "-1m", "-1e99"] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::Negative(_))), "{text}");
        }
        for text in ["8Ei", "1e19", "9223372036854775808", "1e2147483647", "1e99999999999"] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::Overflow(_))), "{text}");
        }
        assert_eq!(read("9223372036854775807").value(), i64::MAX);
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same() {
        for text in ["0", "7", "1500m", "123456789n", "2Gi", "0.1"] {
            assert_eq!(read(&read(text).to_string()), read(text));
        }
    }
}
