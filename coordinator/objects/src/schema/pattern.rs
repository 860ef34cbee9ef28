//! Patterns: Go's regular expressions on Rust's engine.

use regex::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// Compiles a pattern with Go's meaning; the error reads as Go's where that is known.
pub fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(source))
        .size_limit(4 << 20)
        .nest_limit(100)
        .build()
        .map_err(|error| format!("error parsing regexp: {}", reason(source, &error.to_string())))
}

/// Go's classes are ASCII, its brackets do not nest and know no set operators.
fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // a bracket that closes at once is meant literally
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}

fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    match chars.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\x0C\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\x0C\\r ]"),
        Some('b') if !in_class => out.push_str("(?-u:\\b)"),
        Some('<') => out.push('<'),
        Some('>') => out.push('>'),
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
        None => out.push('\\'),
    }
}

/// Go's words for the usual mistakes.
fn reason(source: &str, error: &str) -> String {
    if error.contains("unclosed group") {
        format!("missing closing ): `{source}`")
    } else if error.contains("unopened group") {
        format!("unexpected ): `{source}`")
    } else if error.contains("unclosed character class") {
        let from = source.rfind('[').unwrap_or(0);
        format!("missing closing ]: `{}`", &source[from..])
    } else if error.contains("repetition operator missing expression") {
        let operator = source.chars().find(|c| "*+?".contains(*c)).unwrap_or('*');
        format!("missing argument to repetition operator: `{operator}`")
    } else if error.contains("look-around") || error.contains("look-ahead") {
        let from = source.find("(?").unwrap_or(0);
        let end = (from + 3).min(source.len());
        format!("invalid or unsupported Perl syntax: `{}`", source.get(from..end).unwrap_or("(?"))
    } else if error.contains("incomplete escape sequence") {
        "trailing backslash at end of expression: ``".to_owned()
    } else {
        error.lines().last().unwrap_or("invalid").trim_start_matches("error: ").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        // pattern, text, whether it matches
        let table = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w$", "é", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[a[b]+$", "[ab", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[[:alpha:]]+$", "a1", false),
            (r"a$", "a\n", false),
            (r"^\<a\>$", "<a>", true),
            (r"^[^\s]+$", "a b", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(compile(pattern).unwrap().is_match(text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        for (pattern, expected) in [
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a[b", "error parsing regexp: missing closing ]: `[b`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
        ] {
            assert_eq!(compile(pattern).unwrap_err(), expected);
        }
    }
}
