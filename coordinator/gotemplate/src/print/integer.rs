//! Integers, characters and code points.

use super::{Flags, Printer};
use crate::output::Output;
use crate::quote::quote_char;
use crate::unicode::{REPLACEMENT, is_print};

/// A number apart from its sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integer {
    pub(crate) magnitude: u64,
    pub(crate) negative: bool,
    /// Whether its type has a sign.
    pub(crate) signed: bool,
}

/// An integer in decimal, without flags.
#[inline]
pub(crate) fn decimal(out: &mut Output, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        #[allow(clippy::cast_possible_truncation, reason = "one digit")]
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push_byte(b'-');
    }
    out.push(digits.get(at..).unwrap_or_default());
}

// === impl Integer ===

impl Integer {
    /// The number as Go's code points see it: a negative one is far too large.
    fn code(self) -> u64 {
        if self.negative { self.magnitude.wrapping_neg() } else { self.magnitude }
    }

    fn character(self) -> char {
        u32::try_from(self.code()).ok().and_then(char::from_u32).unwrap_or(REPLACEMENT)
    }
}

// === impl Printer ===

impl Printer<'_> {
    /// An integer by one of its verbs.
    pub(super) fn number(&mut self, number: Integer, verb: char) {
        match verb {
            'v' if self.flags.sharp_v && !number.signed => {
                let sharp = std::mem::replace(&mut self.flags.sharp, true);
                self.digits(number, 16, false, 'v');
                self.flags.sharp = sharp;
            }
            'v' | 'd' => self.digits(number, 10, false, verb),
            'b' => self.digits(number, 2, false, verb),
            'o' | 'O' => self.digits(number, 8, false, verb),
            'x' => self.digits(number, 16, false, verb),
            'X' => self.digits(number, 16, true, verb),
            'c' => self.pad(number.character().encode_utf8(&mut [0; 4]).as_bytes()),
            'q' => {
                let mut quoted = Output::new(64);
                quote_char(&mut quoted, number.character(), self.flags.plus);
                self.pad(quoted.as_bytes());
            }
            _ => self.code_point(number),
        }
    }

    fn digits(&mut self, number: Integer, radix: u64, upper: bool, verb: char) {
        let flags = self.flags;
        let signed = number.negative || flags.plus || flags.space;
        let least = match flags.precision {
            // No digits for a zero that may have none.
            Some(0) if number.magnitude == 0 => {
                self.out.fill(b' ', flags.width.unwrap_or(0));
                return;
            }
            Some(precision) => precision,
            None if flags.zero && !flags.minus => {
                flags.width.unwrap_or(0).saturating_sub(usize::from(signed))
            }
            None => 0,
        };
        let digits = in_radix(number.magnitude, radix, upper);
        let zeros = least.saturating_sub(digits.len());
        let mut prefix = Vec::with_capacity(4);
        if number.negative {
            prefix.push(b'-');
        } else if flags.plus {
            prefix.push(b'+');
        } else if flags.space {
            prefix.push(b' ');
        }
        if verb == 'O' {
            prefix.extend_from_slice(b"0o");
        }
        if flags.sharp {
            match radix {
                2 => prefix.extend_from_slice(b"0b"),
                8 if zeros == 0 && digits.first() != Some(&b'0') => prefix.push(b'0'),
                16 if upper => prefix.extend_from_slice(b"0X"),
                16 => prefix.extend_from_slice(b"0x"),
                _ => {}
            }
        }
        let fill = flags.width.unwrap_or(0).saturating_sub(prefix.len() + zeros + digits.len());
        if !flags.minus {
            self.out.fill(b' ', fill);
        }
        self.out.push(&prefix);
        self.out.fill(b'0', zeros);
        self.out.push(&digits);
        if flags.minus {
            self.out.fill(b' ', fill);
        }
    }

    fn code_point(&mut self, number: Integer) {
        let code = number.code();
        let least = self.flags.precision.unwrap_or(4).max(4);
        let digits = in_radix(code, 16, true);
        let zeros = least.saturating_sub(digits.len());
        let mut tail = Output::new(16);
        if self.flags.sharp
            && let Some(c) = u32::try_from(code).ok().and_then(char::from_u32)
            && is_print(c.into())
        {
            tail.push_str(" '");
            tail.push_char(c);
            tail.push_str("'");
        }
        let shown = 2 + zeros + digits.len() + crate::unicode::count(tail.as_bytes());
        let fill = self.flags.width.unwrap_or(0).saturating_sub(shown);
        let Flags { minus, .. } = self.flags;
        self.out.fill(b' ', if minus { 0 } else { fill });
        self.out.push_str("U+");
        self.out.fill(b'0', zeros);
        self.out.push(&digits);
        self.out.push(tail.as_bytes());
        self.out.fill(b' ', if minus { fill } else { 0 });
    }
}

fn in_radix(number: u64, radix: u64, upper: bool) -> Vec<u8> {
    match (radix, upper) {
        (2, _) => format!("{number:b}"),
        (8, _) => format!("{number:o}"),
        (16, false) => format!("{number:x}"),
        (16, true) => format!("{number:X}"),
        _ => number.to_string(),
    }
    .into_bytes()
}
