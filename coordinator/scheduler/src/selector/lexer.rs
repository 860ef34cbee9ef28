//! From text to words.

use super::SelectorError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    /// `==`, `&&`, `(` and the like.
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "[?", ".?", "(", ")", "[", "]", "{", "}", ".", ",", "?",
    ":", "<", ">", "+", "-", "*", "/", "%", "!",
];

/// The words of a text, each with where it begins.
pub(super) fn lex(text: &str) -> Result<Vec<(usize, Token)>, SelectorError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (length, token) = one(rest, first)
            .map_err(|problem| SelectorError::Syntax { at, problem: problem.to_owned() })?;
        words.push((at, token));
        at += length;
    }
    Ok(words)
}

fn one(rest: &str, first: char) -> Result<(usize, Token), &'static str> {
    if first == '"' || first == '\'' {
        return quoted(rest, false);
    }
    if matches!(first, 'r' | 'R') && matches!(rest.as_bytes().get(1), Some(b'"' | b'\'')) {
        let (length, token) = quoted(rest.get(1..).unwrap_or_default(), true)?;
        return Ok((length + 1, token));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        return Ok((length, Token::Ident(rest.get(..length).unwrap_or_default().to_owned())));
    }
    if first.is_ascii_digit() {
        return number(rest);
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    sign.map(|sign| (sign.len(), Token::Sign(sign))).ok_or("this is no word of the language")
}

fn number(rest: &str) -> Result<(usize, Token), &'static str> {
    const WRONG: &str = "this is no number that can be used";
    let digits =
        |text: &str, more: fn(char) -> bool| text.find(|c: char| !more(c)).unwrap_or(text.len());
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let length = digits(hex, |c| c.is_ascii_hexdigit());
        let value = hex.get(..length).unwrap_or_default();
        let signed = i64::from_str_radix(value, 16).map_err(|_| WRONG)?;
        return Ok((length + 2, Token::Int(signed)));
    }
    let mut length = digits(rest, |c| c.is_ascii_digit());
    let after = |length: usize| rest.get(length..).unwrap_or_default();
    let mut whole = true;
    if after(length).starts_with('.') && after(length + 1).starts_with(|c: char| c.is_ascii_digit())
    {
        whole = false;
        length += 1 + digits(after(length + 1), |c| c.is_ascii_digit());
    }
    if after(length).starts_with(['e', 'E']) {
        let signed = usize::from(after(length + 1).starts_with(['+', '-']));
        let exponent = digits(after(length + 1 + signed), |c| c.is_ascii_digit());
        if exponent > 0 {
            whole = false;
            length += 1 + signed + exponent;
        }
    }
    let text = rest.get(..length).unwrap_or_default();
    if !whole {
        return text.parse().map(|value| (length, Token::Double(value))).map_err(|_| WRONG);
    }
    if after(length).starts_with(['u', 'U']) {
        return text.parse().map(|value| (length + 1, Token::Uint(value))).map_err(|_| WRONG);
    }
    text.parse().map(|value| (length, Token::Int(value))).map_err(|_| WRONG)
}

/// A text in quotes, single or triple; a raw one has no escapes.
fn quoted(rest: &str, raw: bool) -> Result<(usize, Token), &'static str> {
    let triple = ["\"\"\"", "'''"].into_iter().find(|quote| rest.starts_with(quote));
    let quote = triple.unwrap_or(rest.get(..1).unwrap_or("\""));
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(quote.len());
    while let Some((at, c)) = chars.next() {
        if rest.get(at..).is_some_and(|here| here.starts_with(quote)) {
            return Ok((at + quote.len(), Token::Text(text)));
        }
        match c {
            '\n' if triple.is_none() => break,
            '\\' if !raw => text.push(escape(&mut chars)?),
            c => text.push(c),
        }
    }
    Err("this text has no end: close its quotes")
}

fn escape(chars: &mut impl Iterator<Item = (usize, char)>) -> Result<char, &'static str> {
    const WRONG: &str = "this escape does not exist in a text";
    let (_, c) = chars.next().ok_or(WRONG)?;
    let mut code = |digits: usize, radix: u32, start: u32| {
        let mut value = start;
        for _ in 0..digits {
            let digit = chars.next().and_then(|(_, c)| c.to_digit(radix)).ok_or(WRONG)?;
            value =
                value.checked_mul(radix).and_then(|value| value.checked_add(digit)).ok_or(WRONG)?;
        }
        char::from_u32(value).ok_or(WRONG)
    };
    Ok(match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '"' | '\'' | '`' | '?' => c,
        'x' | 'X' => code(2, 16, 0)?,
        'u' => code(4, 16, 0)?,
        'U' => code(8, 16, 0)?,
        '0'..='3' => code(2, 8, c.to_digit(8).unwrap_or(0))?,
        _ => return Err(WRONG),
    })
}
