//! Strings: cut to the precision, quoted or in hexadecimal.

use super::Printer;
use crate::output::Output;
use crate::quote::{can_backquote, quote};
use crate::unicode;

impl Printer<'_> {
    /// Bytes by `s`, `q`, `x` or `X`.
    pub(super) fn text(&mut self, bytes: &[u8], verb: char) {
        match verb {
            'x' => self.hex(bytes, false),
            'X' => self.hex(bytes, true),
            'q' => self.quoted(self.cut(bytes)),
            _ => self.pad(self.cut(bytes)),
        }
    }

    /// As many characters as the precision allows.
    fn cut<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(precision) = self.flags.precision else { return bytes };
        let kept = unicode::runes(bytes).take(precision).map(|(_, raw)| raw.len()).sum();
        bytes.get(..kept).unwrap_or(bytes)
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let mut quoted = Output::new(usize::MAX);
        if self.flags.sharp && can_backquote(bytes) {
            quoted.push_byte(b'`');
            quoted.push(bytes);
            quoted.push_byte(b'`');
        } else {
            quote(&mut quoted, bytes, self.flags.plus);
        }
        self.pad(quoted.as_bytes());
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) {
        let flags = self.flags;
        let bytes = flags.precision.and_then(|precision| bytes.get(..precision)).unwrap_or(bytes);
        let filler = flags.filler();
        if bytes.is_empty() {
            self.out.fill(filler, flags.width.unwrap_or(0));
            return;
        }
        let prefix = match (flags.sharp, upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let count = bytes.len();
        let shown = if flags.space {
            count * (2 + prefix.len()) + count - 1
        } else {
            2 * count + prefix.len()
        };
        let fill = flags.width.unwrap_or(0).saturating_sub(shown);
        self.out.fill(filler, if flags.minus { 0 } else { fill });
        for (index, byte) in bytes.iter().enumerate() {
            if flags.space && index > 0 {
                self.out.push_byte(b' ');
            }
            if flags.space || index == 0 {
                self.out.push_str(prefix);
            }
            let digit = |nibble: u8| match nibble {
                0..=9 => b'0' + nibble,
                _ if upper => b'A' + nibble - 10,
                _ => b'a' + nibble - 10,
            };
            self.out.push(&[digit(byte >> 4), digit(byte & 15)]);
        }
        self.out.fill(filler, if flags.minus { fill } else { 0 });
    }
}
