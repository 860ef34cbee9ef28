//! Number literals: what they can be read as, and what they are when nothing says which.

use crate::quote::unquote_char;

/// A number as it was written and the values that it has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

/// A number whose type only its looks decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ideal {
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    /// Fits only an unsigned integer.
    Overflow,
}

// === impl Number ===

impl Number {
    /// A character in quotes, which is its code.
    pub(crate) fn character(text: &str) -> Result<Self, String> {
        let code = unquote_char(text)?;
        Ok(Self {
            text: text.to_owned(),
            int: Some(code.into()),
            uint: Some(code.into()),
            float: Some(code.into()),
            complex: None,
        })
    }

    /// A real and an imaginary part.
    pub(crate) fn complex(text: &str) -> Result<Self, String> {
        let broken = || "syntax error scanning complex number".to_owned();
        let split = complex_split(text).ok_or_else(broken)?;
        let (real, imaginary) = text.split_at_checked(split).ok_or_else(broken)?;
        let real = parse_float(real).ok_or_else(broken)?;
        let imaginary = imaginary.strip_suffix('i').and_then(parse_float).ok_or_else(broken)?;
        Ok(Self::from_complex(text, real, imaginary))
    }

    /// Any other number.
    pub(crate) fn plain(text: &str) -> Result<Self, String> {
        if let Some(imaginary) = text.strip_suffix('i').and_then(parse_float) {
            return Ok(Self::from_complex(text, 0.0, imaginary));
        }
        let uint = parse_uint(text);
        let int = parse_int(text);
        let uint = uint.or(if int == Some(0) { Some(0) } else { None });
        let mut number = Self { text: text.to_owned(), int, uint, float: None, complex: None };
        #[allow(clippy::cast_precision_loss, reason = "a float constant is rounded to the nearest")]
        if let Some(int) = int {
            number.float = Some(int as f64);
        } else if let Some(uint) = uint {
            number.float = Some(uint as f64);
        } else if let Some(float) = parse_float(text) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {text:?}"));
            }
            number.float = Some(float);
            number.int = integral(float);
        } else {
            return Err(format!("illegal number syntax: {text:?}"));
        }
        Ok(number)
    }

    fn from_complex(text: &str, real: f64, imaginary: f64) -> Self {
        let float = (imaginary == 0.0).then_some(real);
        let int = float.and_then(integral);
        Self { text: text.to_owned(), int, uint: None, float, complex: Some((real, imaginary)) }
    }

    /// The value where the context asks for no type.
    pub(crate) fn ideal(&self) -> Ideal {
        let character = self.text.starts_with('\'');
        let hex_int = (self.text.starts_with("0x") || self.text.starts_with("0X"))
            && self.text.len() > 2
            && !self.text.contains(['p', 'P']);
        let looks_float = !hex_int && !character && self.text.contains(['.', 'e', 'E', 'p', 'P']);
        match (self.complex, self.float, self.int) {
            (Some((real, imaginary)), ..) => Ideal::Complex(real, imaginary),
            (None, Some(float), _) if looks_float => Ideal::Float(float),
            (None, _, Some(int)) => Ideal::Int(int),
            _ => Ideal::Overflow,
        }
    }
}

/// The float as an integer when nothing is lost.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "checked by the way back"
)]
fn integral(float: f64) -> Option<i64> {
    let int = float as i64;
    (int as f64 == float && float < 9_223_372_036_854_775_807.0).then_some(int)
}

/// Where the imaginary part's sign stands: the last sign that is not an exponent's.
fn complex_split(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (1..bytes.len()).rev().find(|at| {
        let exponent = match bytes.get(at - 1) {
            Some(b'p' | b'P') => true,
            Some(b'e' | b'E') => !text.get(..*at).is_some_and(|head| head.contains(['x', 'X'])),
            _ => false,
        };
        matches!(bytes.get(*at), Some(b'+' | b'-')) && !exponent
    })
}

fn parse_int(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix('-') {
        return 0i64.checked_sub_unsigned(parse_uint(digits)?);
    }
    i64::try_from(parse_uint(text.strip_prefix('+').unwrap_or(text))?).ok()
}

/// An unsigned integer with an optional prefix and separators.
fn parse_uint(text: &str) -> Option<u64> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, text.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, text.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, text.get(2..)?),
        [b'0', _, ..] => (8, text.get(1..)?),
        _ => (10, text),
    };
    let clean = without_separators(text, digits)?;
    if clean.is_empty() || !clean.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(&clean, radix).ok()
}

/// The digits without underscores, if each underscore stands between digits or behind the prefix.
fn without_separators(text: &str, digits: &str) -> Option<String> {
    if !digits.contains('_') {
        return Some(digits.to_owned());
    }
    separators_fit(text).then(|| digits.replace('_', ""))
}

/// Whether each underscore has a digit, or the prefix, before it and a digit behind it.
fn separators_fit(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let prefix = ["0x", "0o", "0b"].iter().find(|prefix| lower.starts_with(**prefix));
    let hex = prefix == Some(&"0x");
    let is_digit = |byte: u8| byte.is_ascii_digit() || (hex && byte.is_ascii_hexdigit());
    // The prefix counts as a digit.
    let body = lower.as_bytes().get(if prefix.is_some() { 2 } else { 0 }..).unwrap_or_default();
    let mut before = if prefix.is_some() { b'0' } else { b'^' };
    for byte in body {
        let digit = is_digit(*byte);
        if (*byte == b'_' && before != b'0') || (!digit && *byte != b'_' && before == b'_') {
            return false;
        }
        before = if digit {
            b'0'
        } else if *byte == b'_' {
            b'_'
        } else {
            b'!'
        };
    }
    before != b'_'
}

/// A decimal or hexadecimal float that does not overflow.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.starts_with("0x") || digits.starts_with("0X");
    if digits.contains('_') && !separators_fit(digits) {
        return None;
    }
    let digits = digits.replace('_', "");
    let value = if hex {
        parse_hex(digits.get(2..)?)?
    } else {
        // Rust also reads "inf" and "nan"; a literal starts with a digit or a dot.
        let plain = digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
        if plain { digits.parse::<f64>().ok()? } else { return None }
    };
    value.is_finite().then_some(if negative { -value } else { value })
}

/// A hexadecimal float behind its prefix, rounded to nearest, ties to even.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent = exponent.parse::<i64>().ok()?.clamp(-1_000_000, 1_000_000);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    let mut sticky = false;
    for (digit, scale) in whole.chars().map(|c| (c, 0)).chain(fraction.chars().map(|c| (c, 4))) {
        let digit = u64::from(digit.to_digit(16)?);
        if value >> 59 == 0 {
            value = value << 4 | digit;
            exponent -= scale;
        } else {
            sticky |= digit != 0;
            exponent += 4 - scale;
        }
    }
    if value == 0 {
        return Some(0.0);
    }
    // Keep 53 bits, fewer for a subnormal.
    let width = i64::from(64 - value.leading_zeros());
    let lowest = (exponent + width - 53).max(-1074);
    let shift = lowest - exponent;
    if shift > 0 {
        let shift = u32::try_from(shift).ok()?;
        let (kept, rest, half) = if shift > 64 {
            (0, 0, 1)
        } else if shift == 64 {
            (0, value, 1u64 << 63)
        } else {
            (value >> shift, value & ((1 << shift) - 1), 1u64 << (shift - 1))
        };
        let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        value = kept + u64::from(up);
        exponent = lowest;
    }
    scale(value, exponent)
}

/// `value * 2^exponent`, exact or infinite.
#[allow(clippy::cast_precision_loss, reason = "at most 53 bits are left")]
fn scale(value: u64, exponent: i64) -> Option<f64> {
    let mut result = value as f64;
    let mut left = exponent;
    while left != 0 && result != 0.0 && result.is_finite() {
        let step = left.clamp(-1000, 1000);
        // Two exact powers at most; the value was rounded to what a subnormal keeps.
        result *= 2f64.powi(i32::try_from(step).ok()?);
        left -= step;
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_decide_the_type() {
        for (text, ideal) in [
            ("7", Ideal::Int(7)),
            ("-7", Ideal::Int(-7)),
            ("+7", Ideal::Int(7)),
            ("0x1F", Ideal::Int(31)),
            ("0x1e3", Ideal::Int(0x1e3)),
            ("-0x1e", Ideal::Float(-30.0)),
            ("017", Ideal::Int(15)),
            ("0o17", Ideal::Int(15)),
            ("0b101", Ideal::Int(5)),
            ("1_000", Ideal::Int(1000)),
            ("0x_1F", Ideal::Int(31)),
            ("3.0", Ideal::Float(3.0)),
            (".5", Ideal::Float(0.5)),
            ("1_0.2_5", Ideal::Float(10.25)),
            ("1e3", Ideal::Float(1000.0)),
            ("0x1p4", Ideal::Float(16.0)),
            ("0x1.8p1", Ideal::Float(3.0)),
            ("0x1p-1074", Ideal::Float(5e-324)),
            ("2i", Ideal::Complex(0.0, 2.0)),
            ("18446744073709551615", Ideal::Overflow),
            ("-9223372036854775808", Ideal::Int(i64::MIN)),
        ] {
            assert_eq!(Number::plain(text).unwrap().ideal(), ideal, "{text}");
        }
        assert_eq!(Number::character("'a'").unwrap().ideal(), Ideal::Int(97));
        assert_eq!(Number::complex("1+2i").unwrap().ideal(), Ideal::Complex(1.0, 2.0));
        assert_eq!(Number::complex("1e+2-3e-1i").unwrap().ideal(), Ideal::Complex(100.0, -0.3));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "1__0",
            "_1",
            "1_",
            "1e",
            "0x",
            "08",
            "0b2",
            ".",
            "+",
            "1e999",
            "99999999999999999999",
            "1_.5",
        ] {
            assert!(Number::plain(text).is_err(), "{text}");
        }
    }
}
