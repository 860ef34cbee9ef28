//! Amounts of resources: read, multiplied, added up, and written as Kubernetes writes them.

use std::fmt;

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] = [
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
    ("n", -9),
];
const BINARY: [(&str, u32); 6] =
    [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// An amount. Two are equal if they are as much, however they are written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    written: Written,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Decimal,
    Binary,
    Exponent,
}

// === impl Quantity ===

impl Quantity {
    /// None of it.
    pub const NOTHING: Quantity = Quantity { nano: 0, written: Written::Decimal };

    /// Reads `1500m`, `2Gi`, `1e3`, `0.5`.
    pub fn read(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, suffix) = rest.split_at(end.unwrap_or(rest.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (factor, written) = unit(suffix)?;
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let scale = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let product = digits.checked_mul(factor)?;
        // Less than a billionth counts as one.
        let nano = product / scale + i128::from(product % scale != 0);
        Some(Quantity { nano: if negative { -nano } else { nano }, written })
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// How many, if it is no fraction.
    pub fn whole(self) -> Option<i64> {
        (self.nano % NANO == 0).then_some(())?;
        i64::try_from(self.nano / NANO).ok()
    }

    /// So many times as much.
    pub fn times(self, count: i64) -> Quantity {
        Quantity { nano: self.nano.saturating_mul(i128::from(count)), ..self }
    }

    /// Both together, written as the first of them that is not nothing.
    pub fn plus(self, other: Quantity) -> Quantity {
        let written = if self.nano == 0 { other.written } else { self.written };
        Quantity { nano: self.nano.saturating_add(other.nano), written }
    }

    /// The larger one; the first if they are as much.
    #[must_use]
    pub fn or_more(self, other: Quantity) -> Quantity {
        if other.nano > self.nano { other } else { self }
    }

    /// Whole units, rounded up.
    pub fn whole_up(self) -> i64 {
        let whole = self.nano / NANO + i128::from(self.nano % NANO > 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano == other.nano
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return out.write_str("0");
        }
        let whole = self.nano / NANO;
        if self.written == Written::Binary && self.nano % NANO == 0 && whole.abs() >= 1024 {
            let unit = BINARY.iter().find(|(_, bits)| whole % (1i128 << bits) == 0);
            return match unit {
                Some((suffix, bits)) => write!(out, "{}{suffix}", whole >> bits),
                None => write!(out, "{whole}"),
            };
        }
        for (suffix, power) in DECIMAL {
            let factor = ten(power + 9);
            if self.nano % factor == 0 {
                let count = self.nano / factor;
                return match (self.written, power) {
                    (Written::Exponent, 0) => write!(out, "{count}"),
                    (Written::Exponent, _) => write!(out, "{count}e{power}"),
                    _ => write!(out, "{count}{suffix}"),
                };
            }
        }
        Ok(())
    }
}

/// How many billionths a unit has, and the family of units that it is of.
fn unit(suffix: &str) -> Option<(i128, Written)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((ten(power + 9), Written::Decimal));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((NANO << bits, Written::Binary));
    }
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-9..=18).contains(&power).then(|| (ten(power + 9), Written::Exponent))
}

fn ten(power: i32) -> i128 {
    10i128.pow(power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_the_largest_unit_that_fits() {
        let cases =
            [("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1000", "1k"), ("1e3", "1e3")];
        for (text, expected) in cases {
            assert_eq!(Quantity::read(text).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(Quantity::read("512").unwrap().to_string(), "512");
        assert_eq!(Quantity::read("1.5Gi").unwrap().to_string(), "1536Mi");
    }

    #[test]
    fn amounts_add_up() {
        let cpu = Quantity::read("500m").unwrap().times(3).plus(Quantity::read("5").unwrap());
        assert_eq!(cpu.to_string(), "6500m");
        let none = Quantity::read("1Gi").unwrap().times(0);
        assert_eq!(none.plus(Quantity::read("4Gi").unwrap()).to_string(), "4Gi");
        assert_eq!(Quantity::read("1"), Quantity::read("1000m"));
    }

    #[test]
    fn amounts_round_up_to_whole_units() {
        let whole = |text: &str| Quantity::read(text).unwrap().whole_up();
        assert_eq!([whole("2500m"), whole("2"), whole("1n"), whole("0")], [3, 2, 1, 0]);
        let more = Quantity::read("1").unwrap().or_more(Quantity::read("1500m").unwrap());
        assert_eq!(more.to_string(), "1500m");
        assert!(Quantity::read("0Gi").unwrap().is_zero());
    }

    #[test]
    fn an_amount_is_counted_if_it_is_whole() {
        let whole = |text: &str| Quantity::read(text).unwrap().whole();
        assert_eq!([whole("8"), whole("2k"), whole("-1")], [Some(8), Some(2000), Some(-1)]);
        assert_eq!([whole("1500m"), whole("0.5")], [None, None]);
        assert!(
            Quantity::read("0").unwrap().is_zero() && Quantity::read("-1").unwrap().is_negative()
        );
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "x", "1x", ".", "1.2.3", "e3"] {
            assert_eq!(Quantity::read(text), None, "{text}");
        }
    }
}
