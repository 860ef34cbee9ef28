//! Which code points print and which make a word, and UTF-8 that may be broken.
//!
//! Go's strings are bytes; so are ours. A byte that starts no valid sequence stands alone and reads as
//! U+FFFD, one byte wide.

mod tables;

/// What a broken byte reads as.
pub(crate) const REPLACEMENT: char = '\u{fffd}';

/// Whether the code point is shown as it is inside quotes.
pub(crate) fn is_print(code: u32) -> bool {
    if code < 0x7f { code >= 0x20 } else { inside(&tables::PRINT, code) }
}

/// Whether the character may be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        c == '_' || c.is_ascii_alphanumeric()
    } else {
        inside(&tables::WORD, c.into())
    }
}

fn inside(edges: &[u32], code: u32) -> bool {
    edges.partition_point(|edge| *edge <= code) % 2 == 1
}

/// The first character of the bytes and its width; `None` for a broken byte. Nothing for no bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((Some(char::from(first)), 1));
    }
    let width = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let decoded = bytes.get(..width).and_then(|part| std::str::from_utf8(part).ok());
    Some(match decoded.and_then(|text| text.chars().next()) {
        Some(c) => (Some(c), width),
        None => (None, 1),
    })
}

/// The characters of the bytes with their widths.
pub(crate) fn runes(bytes: &[u8]) -> impl Iterator<Item = (Option<char>, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, width) = decode(rest)?;
        let (head, tail) = rest.split_at(width);
        rest = tail;
        Some((c, head))
    })
}

/// How many characters the bytes hold.
pub(crate) fn count(bytes: &[u8]) -> usize {
    if bytes.is_ascii() { bytes.len() } else { runes(bytes).count() }
}

/// The bytes as text; each broken byte becomes U+FFFD.
pub(crate) fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|broken| {
        runes(broken.as_bytes()).map(|(c, _)| c.unwrap_or(REPLACEMENT)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_beyond_ascii_and_format_characters_do_not_print() {
        for (c, printed) in [
            (' ', true),
            ('a', true),
            ('\u{7f}', false),
            ('\u{a0}', false),
            ('\u{ad}', false),
            ('é', true),
            ('\u{200b}', false),
            ('\u{feff}', false),
            ('世', true),
            ('😀', true),
            ('\u{e000}', false),
        ] {
            assert_eq!(is_print(c.into()), printed, "{c:?}");
        }
    }

    #[test]
    fn a_word_has_letters_and_digits_but_no_marks() {
        for (c, word) in [
            ('_', true),
            ('9', true),
            ('é', true),
            ('世', true),
            ('٣', true),
            ('\u{301}', false),
            ('-', false),
        ] {
            assert_eq!(is_word(c), word, "{c:?}");
        }
    }

    #[test]
    fn each_broken_byte_reads_as_one_replacement() {
        assert_eq!(to_text(b"a\xe4\xb8b\xff".to_vec()), "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(to_text("世".as_bytes().to_vec()), "世");
        assert_eq!(count(b"\xe4\xb8x"), 3);
    }
}
