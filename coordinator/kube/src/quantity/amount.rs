//! Quantities that somebody counts with.
//!
//! Kubernetes caps what is too large at 2^63 - 1 and lets negative amounts through. A scheduler that counts
//! with such numbers is wrong without a word, so both are refused here, by name.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::read::Read;
use super::{LARGEST_BINARY, Quantity};

/// More digits than this say nothing that fits.
const MAX_LEN: usize = 64;

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
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
    /// Reads an amount of zero to 2^63 - 1.
    pub fn amount(text: &str) -> Result<Self, AmountError> {
        let shown = || text.chars().take(MAX_LEN).collect::<String>();
        if text.len() > MAX_LEN {
            return Err(AmountError::Malformed(shown()));
        }
        match Read::parse(text).map_err(|_| AmountError::Malformed(shown()))? {
            Read { negative: true, nano: 1.., .. } => Err(AmountError::Negative(shown())),
            Read { nano, .. } if nano > LARGEST_BINARY => Err(AmountError::Overflow(shown())),
            Read { nano, family, .. } => Ok(Self::new(nano, family)),
        }
    }

    /// Both together, if that is no more than 2^63 - 1.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nano = self.nano().checked_add(other.nano())?;
        (nano <= LARGEST_BINARY).then(|| Self::new(nano, self.family_with(other)))
    }
}

/// Reads as [`Quantity::amount`] does.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"1500m\" or 2")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::amount(text).map_err(E::custom)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::amount(text).unwrap()
    }

    #[test]
    fn an_amount_is_read_in_every_unit() {
        assert_eq!(read("1500m").milli(), 1500);
        assert_eq!(read("2").milli(), 2000);
        assert_eq!(read("0.5").milli(), 500);
        assert_eq!(read(".5").milli(), 500);
        assert_eq!(read("1.").units(), 1);
        assert_eq!(read("2Gi").units(), 2 << 30);
        assert_eq!(read("1.5Gi").units(), 3 << 29);
        assert_eq!(read("1e3").units(), 1000);
        assert_eq!(read("1E3").units(), 1000);
        assert_eq!(read("1E").units(), 1_000_000_000_000_000_000);
        assert_eq!(read("12e-1").milli(), 1200);
        assert_eq!(read("100u").milli(), 1, "thousandths are rounded up");
        assert_eq!(read("1n").units(), 1, "units are rounded up");
        assert_eq!(read("1e-100").units(), 1);
        assert_eq!(read("0e999999999999").units(), 0);
        assert_eq!(read("-0").units(), 0);
    }

    #[test]
    fn what_is_no_amount_is_refused_by_name() {
        for text in ["", "-", "abc", "1.2.3", "1 Gi", "1gi", "1e", "1e+", "Gi", "1e1.5", "٣"] {
            assert!(matches!(Quantity::amount(text), Err(AmountError::Malformed(_))), "{text}");
        }
        for text in ["-1", "-1m", "-1e99"] {
            assert!(matches!(Quantity::amount(text), Err(AmountError::Negative(_))), "{text}");
        }
        for text in ["8Ei", "1e19", "9223372036854775808", "1e2147483647", "1e99999999999"] {
            assert!(matches!(Quantity::amount(text), Err(AmountError::Overflow(_))), "{text}");
        }
        assert_eq!(read("9223372036854775807").units(), i64::MAX);
    }

    #[test]
    fn an_amount_is_read_back_as_the_same_however_it_is_written() {
        for text in ["0", "7", "1500m", "123456789n", "2Gi", "0.1"] {
            assert_eq!(read(&read(text).plain()), read(text));
            assert_eq!(read(&read(text).to_string()), read(text));
        }
        assert_eq!(
            ["2Gi", "1.5", "7n"].map(|text| read(text).plain()),
            ["2147483648", "1500m", "7n"]
        );
    }

    #[test]
    fn amounts_add_up_as_long_as_they_can_be_written() {
        assert_eq!(read("1Gi").checked_add(read("1Gi")), Some(read("2Gi")));
        assert_eq!(read("9223372036854775807").checked_add(read("1")), None);
    }
}
