//! Numbers: everything that could be meant as one. Whether it is one shows when it is read.

use super::{Complaint, Kind, Lexer, Token};
use crate::unicode::is_word;

impl<'s> Lexer<'s> {
    pub(super) fn number(&mut self) -> Token<'s> {
        if !self.scan_number() {
            return self.complain(Complaint::BadNumber);
        }
        if !matches!(self.peek(), Some('+' | '-')) {
            return self.emit(Kind::Number);
        }
        // A complex number, such as 1+2i.
        if !self.scan_number()
            || !self.source.get(..self.at).is_some_and(|read| read.ends_with('i'))
        {
            return self.complain(Complaint::BadNumber);
        }
        self.emit(Kind::Complex)
    }

    fn accept(&mut self, set: &str) -> bool {
        let found = self.peek().is_some_and(|c| set.contains(c));
        if found {
            self.at += 1;
        }
        found
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if (digits == DECIMAL && self.accept("eE")) || (digits == HEX && self.accept("pP")) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_word) {
            self.take();
            return false;
        }
        true
    }
}
