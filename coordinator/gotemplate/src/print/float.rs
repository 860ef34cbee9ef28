//! Floats in every notation that Go has.
//!
//! Rust's own formatting gives the digits: the shortest that read back as the same number, or a correctly rounded
//! count of them. Which notation they go into and with which exponent is decided here.

use super::Printer;
use crate::output::Output;

/// No float has more digits than this; what a larger precision asks for is zeros.
const MOST_DIGITS: usize = 1100;

/// `0.ddd × 10^point`, without trailing zeros; no digits at all for zero.
struct Decimal {
    digits: Vec<u8>,
    point: i32,
}

/// A float by `%v`.
pub(crate) fn general(out: &mut Output, number: f64) {
    out.push(&format(number, b'g', None));
}

/// A float as Go writes it into JSON.
pub(crate) fn json(out: &mut Output, number: f64) {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        out.push(&format(number, b'f', None));
        return;
    }
    let mut text = format(number, b'e', None);
    // e-09 is written e-9.
    if let [.., b'e', b'-', b'0', last] = text.as_slice() {
        let last = *last;
        text.truncate(text.len() - 2);
        text.push(last);
    }
    out.push(&text);
}

/// A float in the notation of the verb, with its sign only if it is negative; the shortest digits without a
/// precision.
pub(crate) fn format(number: f64, verb: u8, precision: Option<usize>) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    if number.is_nan() {
        return b"NaN".to_vec();
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = number.abs();
    if magnitude.is_infinite() {
        if out.is_empty() {
            out.push(b'+');
        }
        out.extend_from_slice(b"Inf");
        return out;
    }
    match verb {
        b'b' => binary(&mut out, magnitude),
        b'x' | b'X' => hexadecimal(&mut out, magnitude, verb, precision),
        b'f' => match precision {
            None => {
                let decimal = Decimal::shortest(magnitude);
                decimal.plain(&mut out, decimal.fraction());
            }
            Some(precision) => {
                let digits = precision.min(MOST_DIGITS);
                out.extend_from_slice(format!("{magnitude:.digits$}").as_bytes());
                out.resize(out.len() + precision - digits, b'0');
            }
        },
        b'e' | b'E' => match precision {
            None => {
                let decimal = Decimal::shortest(magnitude);
                decimal.scientific(&mut out, decimal.digits.len().saturating_sub(1), verb);
            }
            Some(precision) => {
                Decimal::rounded(magnitude, precision + 1).scientific(&mut out, precision, verb)
            }
        },
        _ => {
            let exponent_verb = if verb == b'G' { b'E' } else { b'e' };
            let (decimal, most) = match precision {
                None => (Decimal::shortest(magnitude), 6),
                Some(precision) => {
                    let precision = precision.max(1);
                    let decimal = Decimal::rounded(magnitude, precision);
                    let count = decimal.digits.len();
                    let whole = i32::try_from(count).unwrap_or(i32::MAX) >= decimal.point;
                    let most = if precision > count && whole { count } else { precision };
                    (decimal, i32::try_from(most).unwrap_or(i32::MAX))
                }
            };
            let exponent = decimal.point - 1;
            if exponent < -4 || exponent >= most {
                decimal.scientific(&mut out, decimal.digits.len().saturating_sub(1), exponent_verb);
            } else {
                decimal.plain(&mut out, decimal.fraction());
            }
        }
    }
    out
}

// === impl Decimal ===

impl Decimal {
    fn shortest(magnitude: f64) -> Self {
        Self::from_scientific(&format!("{magnitude:e}"))
    }

    /// As many significant digits, the last one rounded.
    fn rounded(magnitude: f64, count: usize) -> Self {
        let behind = count.saturating_sub(1).min(MOST_DIGITS);
        Self::from_scientific(&format!("{magnitude:.behind$e}"))
    }

    fn from_scientific(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let point = if digits.is_empty() { 0 } else { exponent.parse::<i32>().unwrap_or(0) + 1 };
        Self { digits, point }
    }

    /// How many digits stand behind the point.
    fn fraction(&self) -> usize {
        let count = i32::try_from(self.digits.len()).unwrap_or(i32::MAX);
        usize::try_from(count.saturating_sub(self.point)).unwrap_or(0)
    }

    fn digit(&self, index: i32) -> u8 {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.digits.get(index))
            .copied()
            .unwrap_or(b'0')
    }

    fn plain(&self, out: &mut Vec<u8>, fraction: usize) {
        if self.point > 0 {
            out.extend((0..self.point).map(|index| self.digit(index)));
        } else {
            out.push(b'0');
        }
        if fraction > 0 {
            out.push(b'.');
            out.extend(
                (0..i32::try_from(fraction).unwrap_or(0))
                    .map(|index| self.digit(self.point + index)),
            );
        }
    }

    fn scientific(&self, out: &mut Vec<u8>, fraction: usize, verb: u8) {
        out.push(self.digit(0));
        if fraction > 0 {
            out.push(b'.');
            let known = self.digits.get(1..).unwrap_or_default();
            let known = known.get(..fraction).unwrap_or(known);
            out.extend_from_slice(known);
            out.resize(out.len() + fraction - known.len(), b'0');
        }
        let exponent = if self.digits.is_empty() { 0 } else { self.point - 1 };
        out.push(verb);
        signed_exponent(out, exponent);
    }
}

/// A sign and at least two digits.
fn signed_exponent(out: &mut Vec<u8>, exponent: i32) {
    out.push(if exponent < 0 { b'-' } else { b'+' });
    out.extend_from_slice(format!("{:02}", exponent.unsigned_abs()).as_bytes());
}

/// The mantissa as an integer and the power of two that it is multiplied with.
fn parts(magnitude: f64) -> (u64, i32) {
    let bits = magnitude.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let biased = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
    if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) }
}

fn binary(out: &mut Vec<u8>, magnitude: f64) {
    let (mantissa, exponent) = parts(magnitude);
    let sign = if exponent >= 0 { "+" } else { "" };
    out.extend_from_slice(format!("{mantissa}p{sign}{exponent}").as_bytes());
}

fn hexadecimal(out: &mut Vec<u8>, magnitude: f64, verb: u8, precision: Option<usize>) {
    let (mut mantissa, mut exponent) = parts(magnitude);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // The leading one goes to bit 60, with fifteen digits behind it.
        let shift = mantissa.leading_zeros() - 3;
        mantissa <<= shift;
        exponent += 60 - i32::try_from(shift).unwrap_or(0);
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let dropped = 60 - u32::try_from(precision).unwrap_or(0) * 4;
        let rest = mantissa & ((1 << dropped) - 1);
        let half = 1u64 << (dropped - 1);
        mantissa >>= dropped;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= dropped;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let digits = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(precision) => {
            let known = digits.get(..precision).unwrap_or(&digits);
            format!("{known}{}", "0".repeat(precision - known.len()))
        }
    };
    let point = if digits.is_empty() { "" } else { "." };
    let text = format!("0x{}{point}{digits}p", mantissa >> 60);
    out.extend_from_slice(if verb == b'X' { text.to_uppercase() } else { text }.as_bytes());
    signed_exponent(out, exponent);
}

// === impl Printer ===

impl Printer<'_> {
    /// A float by a verb that fits.
    pub(super) fn float(&mut self, number: f64, verb: char) {
        let flags = self.flags;
        let (notation, default) = match verb {
            'f' | 'F' => (b'f', Some(6)),
            'e' => (b'e', Some(6)),
            'E' => (b'E', Some(6)),
            'G' => (b'G', None),
            'b' => (b'b', None),
            'x' => (b'x', None),
            'X' => (b'X', None),
            _ => (b'g', None),
        };
        let precision = flags.precision.or(default);
        let mut text = format(number, notation, precision);
        let sign = match text.first() {
            Some(sign @ (b'-' | b'+')) => {
                let sign = *sign;
                text.remove(0);
                sign
            }
            _ => b'+',
        };
        let sign = if sign == b'+' && flags.space && !flags.plus { b' ' } else { sign };
        let shows_sign = flags.plus || sign != b'+';
        if !number.is_finite() {
            // An infinity always shows its sign, and zeros fill up neither of these.
            if number.is_infinite() || flags.space || flags.plus {
                text.insert(0, sign);
            }
            let zero = std::mem::replace(&mut self.flags.zero, false);
            self.pad(&text);
            self.flags.zero = zero;
            return;
        }
        if flags.sharp && verb != 'b' {
            text = with_point(text, notation, precision);
        }
        if !shows_sign {
            self.pad(&text);
        } else if flags.zero
            && !flags.minus
            && flags.width.is_some_and(|width| width > text.len() + 1)
        {
            self.out.push_byte(sign);
            self.out.fill(b'0', flags.width.unwrap_or(0) - text.len() - 1);
            self.out.push(&text);
        } else {
            text.insert(0, sign);
            self.pad(&text);
        }
    }
}

/// The number with a point, and with the trailing zeros that the shortest form leaves out.
fn with_point(text: Vec<u8>, notation: u8, precision: Option<usize>) -> Vec<u8> {
    let mut missing = match notation {
        b'g' | b'G' | b'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let hex = matches!(notation, b'x' | b'X');
    let is_exponent =
        |byte: &u8| matches!(byte, b'p' | b'P') || (!hex && matches!(byte, b'e' | b'E'));
    let split = text.iter().position(is_exponent).unwrap_or(text.len());
    let (number, tail) = text.split_at_checked(split).unwrap_or((&text, &[]));
    let mut significant = false;
    for byte in number {
        if *byte != b'.' {
            significant |= *byte != b'0';
            missing = missing.saturating_sub(usize::from(significant));
        }
    }
    let mut result = number.to_vec();
    if !number.contains(&b'.') {
        if number == b"0" {
            missing = missing.saturating_sub(1);
        }
        result.push(b'.');
    }
    result.resize(result.len() + missing, b'0');
    result.extend_from_slice(tail);
    result
}
