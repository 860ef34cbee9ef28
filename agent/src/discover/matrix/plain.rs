//! Text from drivers and tools, made fit for a terminal.

/// The text without escape sequences and control characters, with single blanks, of at most `most` characters.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut blank = false;
    for c in uncoloured(text).chars() {
        match c {
            _ if c.is_whitespace() => blank = !out.is_empty(),
            _ if hidden(c) => {}
            _ => {
                if std::mem::take(&mut blank) {
                    out.push(' ');
                }
                out.push(c);
            }
        }
    }
    out.chars().take(most).collect::<String>().trim_end().to_owned()
}

/// The text without escape sequences: `ESC [ … letter`, `ESC ] … BEL`, `ESC x`.
pub(crate) fn uncoloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.next() {
                Some('[') => drop(rest.find(|c| ('\u{40}'..='\u{7e}').contains(c) || *c == '\n')),
                Some(']') => drop(rest.find(|c| ['\u{7}', '\u{1b}', '\n'].contains(c))),
                _ => {}
            },
            // The same in one character.
            '\u{9b}' => drop(rest.find(|c| ('\u{40}'..='\u{7e}').contains(c) || *c == '\n')),
            c => out.push(c),
        }
    }
    out
}

/// Control characters, and those that turn the direction of writing around.
fn hidden(c: char) -> bool {
    let turns = ['\u{200e}', '\u{200f}', '\u{61c}', '\u{feff}'];
    c.is_control()
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || turns.contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_is_left() {
        for (text, expected) in [
            ("NVIDIA H100", "NVIDIA H100"),
            ("\u{1b}[4mGPU0\u{1b}[0m", "GPU0"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{9b}31mb\u{1b}cd", "abd"),
            (" two\t\t words\r\n ", "two words"),
            ("x\u{202e}y\u{0}z", "xyz"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(text, 20), expected);
        }
        assert_eq!(plain("abc \u{1b}[1mdef", 4), "abc");
        assert_eq!(plain("abcdef", 5), "abcde");
    }

    proptest! {
        #[test]
        fn plain_text_is_plain_and_stays_so(text in "(?s).{0,80}", most in 0usize..40) {
            let once = plain(&text, most);
            prop_assert!(once.chars().count() <= most);
            prop_assert!(!once.contains(hidden));
            prop_assert_eq!(plain(&once, most), once);
        }
    }
}
