//! Go's quoted strings and characters: writing and reading them.

use crate::output::Output;
use crate::unicode::{self, is_print};

/// Text in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Output::new(usize::MAX);
    quote(&mut out, text.as_bytes(), false);
    unicode::to_text(out.into_bytes())
}

/// Bytes in double quotes; `ascii` escapes everything beyond.
pub(crate) fn quote(out: &mut Output, bytes: &[u8], ascii: bool) {
    out.push_byte(b'"');
    let mut plain = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\' {
            at += 1;
            continue;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let (c, width) = unicode::decode(rest).unwrap_or((None, 1));
        if let Some(c) = c
            && !ascii
            && byte >= 0x80
            && is_print(c.into())
        {
            at += width;
            continue;
        }
        out.push(bytes.get(plain..at).unwrap_or_default());
        match c {
            Some(c) => escape(out, c, '"', ascii),
            None => hex(out, b'x', byte.into(), 2),
        }
        at += width;
        plain = at;
    }
    out.push(bytes.get(plain..).unwrap_or_default());
    out.push_byte(b'"');
}

/// A character in single quotes.
pub(crate) fn quote_char(out: &mut Output, c: char, ascii: bool) {
    out.push_byte(b'\'');
    escape(out, c, '\'', ascii);
    out.push_byte(b'\'');
}

fn escape(out: &mut Output, c: char, quote: char, ascii: bool) {
    let code = u32::from(c);
    if c == quote || c == '\\' {
        out.push_byte(b'\\');
        out.push_char(c);
    } else if (c.is_ascii() || !ascii) && is_print(code) {
        out.push_char(c);
    } else {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if code < 0x20 || code == 0x7f => hex(out, b'x', code, 2),
            _ if code < 0x10000 => hex(out, b'u', code, 4),
            _ => hex(out, b'U', code, 8),
        }
    }
}

fn hex(out: &mut Output, letter: u8, code: u32, width: usize) {
    out.push_str(&format!("\\{}{code:0width$x}", char::from(letter)));
}

/// Whether the bytes can stand between backquotes as they are.
pub(crate) fn can_backquote(bytes: &[u8]) -> bool {
    unicode::runes(bytes).all(|(c, _)| match c {
        None | Some('\u{feff}' | '`' | '\x7f') => false,
        Some(c) => c >= ' ' || c == '\t',
    })
}

/// The value of a string literal with its quotes, `"…"` or `` `…` ``.
pub(crate) fn unquote(literal: &str) -> Option<Vec<u8>> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.bytes().filter(|byte| *byte != b'\r').collect());
    }
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut value = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = unquote_unit(rest, '"')?;
        match unit {
            Unit::Char(c) => value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Byte(byte) => value.push(byte),
        }
        rest = tail;
    }
    Some(value)
}

/// The code of a character literal with its quotes. The error tells a bad escape from a bad length.
pub(crate) fn unquote_char(literal: &str) -> Result<u32, String> {
    let (unit, tail) = literal
        .strip_prefix('\'')
        .and_then(|rest| unquote_unit(rest, '\''))
        .ok_or("invalid syntax")?;
    if tail != "'" {
        return Err(format!("malformed character constant: {literal}"));
    }
    Ok(match unit {
        Unit::Char(c) => c.into(),
        Unit::Byte(byte) => byte.into(),
    })
}

enum Unit {
    Char(char),
    Byte(u8),
}

fn unquote_unit(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == quote || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some((Unit::Char(first), chars.as_str()));
    }
    let kind = chars.next()?;
    let rest = chars.as_str();
    let digits = |count: usize, radix: u32| {
        let digits = rest.get(..count)?;
        let valid = digits.bytes().all(|byte| char::from(byte).is_digit(radix));
        let code = if valid { u32::from_str_radix(digits, radix).ok()? } else { return None };
        Some((code, rest.get(count..)?))
    };
    let simple = match kind {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        '\'' | '"' if kind == quote => kind,
        'x' => {
            let (code, rest) = digits(2, 16)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        'u' | 'U' => {
            let (code, rest) = digits(if kind == 'u' { 4 } else { 8 }, 16)?;
            return Some((Unit::Char(char::from_u32(code)?), rest));
        }
        '0'..='7' => {
            let digits = text
                .get(1..4)
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit() && b < b'8'))?;
            let code = u32::from_str_radix(digits, 8).ok()?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), text.get(4..)?));
        }
        _ => return None,
    };
    Some((Unit::Char(simple), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_keeps_what_prints_and_escapes_the_rest() {
        for (text, expected) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("tab\there \"quoted\" back\\slash", r#""tab\there \"quoted\" back\\slash""#),
            ("\u{7}\u{8}\u{c}\n\r\u{b}\u{1}\u{7f}", r#""\a\b\f\n\r\v\x01\x7f""#),
            ("né 世 😀", r#""né 世 😀""#),
            ("\u{a0}\u{200b}\u{feff}\u{e0001}", r#""\u00a0\u200b\ufeff\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn broken_bytes_are_escaped_one_by_one() {
        let mut out = Output::new(99);
        quote(&mut out, b"a\xff\xe4\xb8", false);
        assert_eq!(out.as_bytes(), br#""a\xff\xe4\xb8""#);
    }

    #[test]
    fn literals_are_read_back() {
        for (literal, value) in [
            (r#""a\tb""#, Some("a\tb".as_bytes())),
            (r#""\x41\101\u00e9\U0001F600""#, Some("AAé😀".as_bytes())),
            (r#""\xff""#, Some(b"\xff".as_slice())),
            (r#""\q""#, None),
            (r#""\'""#, None),
            (r#""\ud800""#, None),
            (r#""\400""#, None),
            (r#""\u12""#, None),
            ("`a\\n\r\n`", Some("a\\n\n".as_bytes())),
        ] {
            assert_eq!(unquote(literal).as_deref(), value, "{literal}");
        }
        assert_eq!(unquote_char("'a'"), Ok(97));
        assert_eq!(unquote_char(r"'\''"), Ok(39));
        assert!(unquote_char("''").is_err());
        assert!(unquote_char("'ab'").is_err());
        assert!(unquote_char(r#"'\"'"#).is_err());
    }
}
