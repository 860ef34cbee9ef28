//! Format strings: flags, widths, precisions and explicit operand numbers.

use super::{Flags, Printer};
use crate::output::Output;
use crate::unicode;
use crate::value::Value;

/// The largest width or precision; a larger one is taken for a mistake.
const LARGEST: i64 = 1_000_000;

/// Writes the operands by the format.
pub(crate) fn printf(out: &mut Output, format: &[u8], operands: &[Value<'_>]) {
    let mut run = Run {
        printer: Printer { out, flags: Flags::default() },
        format,
        at: 0,
        operands,
        next: 0,
        reordered: false,
        unclosed: false,
        good: true,
    };
    run.all();
}

struct Run<'o, 'r, 'v> {
    printer: Printer<'o>,
    format: &'r [u8],
    at: usize,
    operands: &'r [Value<'v>],
    /// The operand that comes next.
    next: usize,
    /// Whether any operand was named by its number.
    reordered: bool,
    /// Whether no bracket closes any more; to look again and again would take long.
    unclosed: bool,
    /// Whether all operand numbers of this verb fit.
    good: bool,
}

impl Run<'_, '_, '_> {
    fn all(&mut self) {
        while self.at < self.format.len() && !self.printer.out.is_over() {
            let rest = self.format.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
            self.printer.out.push(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            if plain < rest.len() {
                self.at += 1;
                self.verb();
            }
        }
        if !self.reordered && self.next < self.operands.len() {
            self.extra();
        }
    }

    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn verb(&mut self) {
        self.good = true;
        self.printer.flags = Flags::default();
        self.flags();
        let mut after_number = self.operand_number();
        if self.peek() == Some(b'*') {
            self.at += 1;
            let width = self.star();
            if width.is_none() {
                self.printer.out.push_str("%!(BADWIDTH)");
            }
            let width = width.unwrap_or(0);
            self.printer.flags.width = usize::try_from(width.unsigned_abs()).ok();
            if width < 0 {
                self.printer.flags.minus = true;
                self.printer.flags.zero = false;
            }
            after_number = false;
        } else {
            self.printer.flags.width = self.digits();
            if after_number && self.printer.flags.width.is_some() {
                self.good = false;
            }
        }
        if self.peek() == Some(b'.') && self.at + 1 < self.format.len() {
            self.at += 1;
            if after_number {
                self.good = false;
            }
            after_number = self.operand_number();
            if self.peek() == Some(b'*') {
                self.at += 1;
                let precision = self.star().filter(|precision| *precision >= 0);
                if precision.is_none() {
                    self.printer.out.push_str("%!(BADPREC)");
                }
                self.printer.flags.precision =
                    precision.and_then(|precision| usize::try_from(precision).ok());
                after_number = false;
            } else {
                self.printer.flags.precision = Some(self.digits().unwrap_or(0));
            }
        }
        if !after_number {
            self.operand_number();
        }
        let rest = self.format.get(self.at..).unwrap_or_default();
        let Some((verb, width)) = unicode::decode(rest) else {
            self.printer.out.push_str("%!(NOVERB)");
            return;
        };
        self.at += width;
        self.operand(verb.unwrap_or(unicode::REPLACEMENT));
    }

    fn operand(&mut self, verb: char) {
        if verb == '%' {
            self.printer.out.push_byte(b'%');
        } else if !self.good {
            self.bad(verb, "(BADINDEX)");
        } else if let Some(operand) = self.operands.get(self.next) {
            if matches!(verb, 'v' | 'w') {
                let flags = &mut self.printer.flags;
                flags.sharp_v = std::mem::take(&mut flags.sharp);
                flags.plus_v = std::mem::take(&mut flags.plus);
            }
            self.printer.argument(operand, verb);
            self.next += 1;
        } else {
            self.bad(verb, "(MISSING)");
        }
    }

    fn bad(&mut self, verb: char, what: &str) {
        self.printer.out.push_str("%!");
        self.printer.out.push_char(verb);
        self.printer.out.push_str(what);
    }

    fn flags(&mut self) {
        while let Some(byte) = self.peek() {
            let flags = &mut self.printer.flags;
            match byte {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    /// A decimal number at this place. One that is far too large swallows the rest.
    fn digits(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            let so_far = number.unwrap_or(0i64);
            if so_far > LARGEST {
                self.at = self.format.len();
                return None;
            }
            number = Some(so_far * 10 + i64::from(byte - b'0'));
            self.at += 1;
        }
        number.and_then(|number| usize::try_from(number).ok())
    }

    /// The next operand as a width or a precision.
    fn star(&mut self) -> Option<i64> {
        let number = self.operands.get(self.next)?.as_int();
        self.next += 1;
        number.filter(|number| (-LARGEST..=LARGEST).contains(number))
    }

    /// An explicit operand number such as `[2]`; whether there was one that could be read.
    fn operand_number(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = self.format.get(self.at..).unwrap_or_default();
        let close = if self.unclosed { None } else { rest.iter().position(|byte| *byte == b']') };
        self.unclosed = close.is_none();
        let Some(close) = close.filter(|_| rest.len() >= 3) else {
            self.good = false;
            self.at += 1;
            return false;
        };
        let number = rest.get(1..close).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number =
            number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
        self.at += close + 1;
        match number {
            Some(number) if (1..=self.operands.len()).contains(&number) => {
                self.next = number - 1;
                true
            }
            _ => {
                self.good = false;
                number.is_some_and(|number| number <= 10_000_000)
            }
        }
    }

    fn extra(&mut self) {
        self.printer.flags = Flags::default();
        self.printer.out.push_str("%!(EXTRA ");
        for (index, operand) in
            self.operands.get(self.next..).unwrap_or_default().iter().enumerate()
        {
            if index > 0 {
                self.printer.out.push_str(", ");
            }
            if operand.is_nil() {
                self.printer.out.push_str("<nil>");
            } else {
                self.printer.out.push_str(operand.type_name());
                self.printer.out.push_byte(b'=');
                self.printer.argument(operand, 'v');
            }
        }
        self.printer.out.push_byte(b')');
    }
}
