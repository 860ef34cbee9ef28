//! Values as text: what Go's `fmt` makes of them.
//!
//! A wrong verb or a missing operand is text in the output, such as `%!d(string=a)`, and never an error.
//! [`verbs`] reads format strings; here a value meets a verb; [`integer`], [`float`] and [`text`] know the
//! flags.

pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod text;
pub(crate) mod verbs;

use crate::output::Output;
use crate::value::{ANY, Value};

/// How deep lists may lie within each other when they are printed; what lies deeper is left out.
const DEEPEST: usize = 2000;

/// The flags of a verb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) minus: bool,
    pub(crate) plus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%+v`: names of fields.
    pub(crate) plus_v: bool,
    /// `%#v`: Go's syntax.
    pub(crate) sharp_v: bool,
}

/// Writes values with flags.
pub(crate) struct Printer<'o> {
    pub(crate) out: &'o mut Output,
    pub(crate) flags: Flags,
}

/// A value on its own, as an action prints it: what is not there reads `<no value>`.
#[inline]
pub(crate) fn action(out: &mut Output, value: &Value<'_>) {
    match value {
        Value::Text(text) => out.push(text),
        Value::Int(number) => integer::decimal(out, *number),
        Value::Missing | Value::Nil => out.push_str("<no value>"),
        _ => show(out, value, Flags::default()),
    }
}

/// A value by `%v` with these flags.
pub(crate) fn show(out: &mut Output, value: &Value<'_>, flags: Flags) {
    Printer { out, flags }.argument(value, 'v');
}

/// All values by `%v`, with a blank between two that are no text.
pub(crate) fn join(out: &mut Output, values: &[Value<'_>]) {
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, Value::Text(_));
        if !is_text && !after_text {
            out.push_byte(b' ');
        }
        show(out, value, Flags::default());
        after_text = is_text;
    }
}

/// All values by `%v`, with blanks between them and a newline at the end.
pub(crate) fn line(out: &mut Output, values: &[Value<'_>]) {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push_byte(b' ');
        }
        show(out, value, Flags::default());
    }
    out.push_byte(b'\n');
}

/// A value by `%v` on the side, up to a bound.
pub(crate) fn aside(value: &Value<'_>, limit: usize) -> Output {
    let mut out = Output::new(limit);
    show(&mut out, value, Flags::default());
    out
}

/// A value by `%v`, for an error message.
pub(crate) fn shown(value: &Value<'_>) -> String {
    shown_by(value, 'v')
}

/// A value by a verb, for an error message.
pub(crate) fn shown_by(value: &Value<'_>, verb: char) -> String {
    let mut out = Output::new(4096);
    Printer { out: &mut out, flags: Flags::default() }.argument(value, verb);
    crate::unicode::to_text(out.into_bytes())
}

// === impl Flags ===

impl Flags {
    /// What the zero flag fills with on the left; never on the right.
    pub(crate) fn filler(self) -> u8 {
        if self.zero && !self.minus { b'0' } else { b' ' }
    }
}

// === impl Printer ===

impl Printer<'_> {
    pub(crate) fn argument(&mut self, value: &Value<'_>, verb: char) {
        match (value, verb) {
            (Value::Missing | Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (Value::Missing | Value::Nil, _) => self.bad_verb(value, verb),
            (_, 'T') => self.text(value.type_name().as_bytes(), 's'),
            // Where a value lies differs from run to run; say only that it lies somewhere.
            (Value::List(_) | Value::Map(_), 'p') => {
                self.pad(if self.flags.sharp { b"c000000000" } else { b"0xc000000000" })
            }
            (_, 'p') => self.bad_verb(value, verb),
            (Value::List(_) | Value::Map(_) | Value::Struct(_), 'w') => self.bad_verb(value, verb),
            _ => self.value(value, verb, 0),
        }
    }

    fn value(&mut self, value: &Value<'_>, verb: char, depth: usize) {
        if depth > DEEPEST || self.out.is_over() {
            return;
        }
        match value {
            Value::Missing | Value::Nil if self.flags.sharp_v => {
                self.out.push_str("interface {}(nil)")
            }
            Value::Missing | Value::Nil => self.out.push_str("<nil>"),
            Value::Bool(truth) => match verb {
                't' | 'v' => self.pad(if *truth { b"true" } else { b"false" }),
                _ => self.bad_verb(value, verb),
            },
            Value::Int(number) => {
                self.integer(value, number.unsigned_abs(), *number < 0, true, verb)
            }
            Value::Uint(number) => self.integer(value, *number, false, false, verb),
            Value::Byte(number) => self.integer(value, (*number).into(), false, false, verb),
            Value::Float(number) => match verb {
                'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E' => {
                    self.float(*number, verb)
                }
                _ => self.bad_verb(value, verb),
            },
            Value::Complex(real, imaginary) => match verb {
                'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E' => {
                    let plus = self.flags.plus;
                    self.out.push_byte(b'(');
                    self.float(*real, verb);
                    self.flags.plus = true;
                    self.float(*imaginary, verb);
                    self.flags.plus = plus;
                    self.out.push_str("i)");
                }
                _ => self.bad_verb(value, verb),
            },
            Value::Text(bytes) => match verb {
                'v' if self.flags.sharp_v => self.text(bytes, 'q'),
                'v' | 's' => self.text(bytes, 's'),
                'x' | 'X' | 'q' => self.text(bytes, verb),
                _ => self.bad_verb(value, verb),
            },
            Value::List(list) => {
                self.open(list.type_name(), b'[');
                for (index, item) in list.iter().enumerate() {
                    self.separate(index);
                    self.element(&item, verb, depth);
                    if self.out.is_over() {
                        return;
                    }
                }
                self.out.push_byte(if self.flags.sharp_v { b'}' } else { b']' });
            }
            Value::Map(map) => {
                if !self.flags.sharp_v {
                    self.out.push_str("map");
                }
                self.open(map.type_name(), b'[');
                for (index, (key, item)) in map.entries().into_iter().enumerate() {
                    self.separate(index);
                    self.element(&Value::Text(key), verb, depth);
                    self.out.push_byte(b':');
                    self.element(&item, verb, depth);
                    if self.out.is_over() {
                        return;
                    }
                }
                self.out.push_byte(if self.flags.sharp_v { b'}' } else { b']' });
            }
            Value::Struct(fields) => {
                self.open(fields.type_name(), b'{');
                for (index, name) in fields.fields().iter().enumerate() {
                    self.separate(index);
                    if self.flags.plus_v || self.flags.sharp_v {
                        self.out.push_str(name);
                        self.out.push_byte(b':');
                    }
                    self.element(&fields.field(index), verb, depth);
                }
                self.out.push_byte(b'}');
            }
        }
    }

    fn element(&mut self, value: &Value<'_>, verb: char, depth: usize) {
        if verb == 'w' && !value.is_nil() {
            self.bad_verb(value, verb)
        } else {
            self.value(value, verb, depth + 1)
        }
    }

    fn open(&mut self, type_name: &str, bracket: u8) {
        if self.flags.sharp_v {
            self.out.push_str(type_name);
        }
        self.out.push_byte(if self.flags.sharp_v { b'{' } else { bracket });
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.out.push_str(if self.flags.sharp_v { ", " } else { " " });
        }
    }

    /// Says that the verb does not fit the value.
    fn bad_verb(&mut self, value: &Value<'_>, verb: char) {
        self.out.push_str("%!");
        self.out.push_char(verb);
        self.out.push_byte(b'(');
        if value.is_nil() {
            self.out.push_str("<nil>");
        } else {
            self.out.push_str(value.type_name());
            self.out.push_byte(b'=');
            self.argument(value, 'v');
        }
        self.out.push_byte(b')');
    }

    /// Bytes, filled up to the width.
    pub(crate) fn pad(&mut self, bytes: &[u8]) {
        let Some(width) = self.flags.width.filter(|width| *width > 0) else {
            self.out.push(bytes);
            return;
        };
        let fill = width.saturating_sub(crate::unicode::count(bytes));
        if self.flags.minus {
            self.out.push(bytes);
            self.out.fill(self.flags.filler(), fill);
        } else {
            self.out.fill(self.flags.filler(), fill);
            self.out.push(bytes);
        }
    }

    fn integer(
        &mut self,
        value: &Value<'_>,
        magnitude: u64,
        negative: bool,
        signed: bool,
        verb: char,
    ) {
        if matches!(verb, 'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U') {
            let number = integer::Integer { magnitude, negative, signed };
            self.number(number, verb);
        } else {
            self.bad_verb(value, verb);
        }
    }
}

/// The name that an error gives the type of a receiver.
pub(crate) fn receiver_type<'v>(value: &Value<'v>, boxed: bool) -> &'v str {
    if boxed { ANY } else { value.type_name() }
}

#[cfg(test)]
mod tests;
