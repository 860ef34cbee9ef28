//! Text: case, trimming, searching, splitting, joining.
//!
//! Names and order of arguments are those that chart authors know; the text comes last, so that it can be piped.

use super::{Functions, Param, any, bytes, int};
use crate::error::FunctionError;
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::unicode;
use crate::value::{Text, Value};

pub(super) fn register(functions: &mut Functions) {
    change_case(functions);
    cut(functions);
    lengthen(functions);
    show(functions);
    search_and_split(functions);
}

fn change_case(functions: &mut Functions) {
    use Param::Text;
    functions.text("upper", &[Text], None, |out, arguments, _| {
        each_char(out, bytes(arguments, 0), |c, _| single(c, c.to_uppercase()))
    });
    functions.text("lower", &[Text], None, |out, arguments, _| {
        each_char(out, bytes(arguments, 0), |c, _| single(c, c.to_lowercase()))
    });
    functions.text("title", &[Text], None, |out, arguments, _| {
        each_char(
            out,
            bytes(arguments, 0),
            |c, in_word| {
                if in_word { c } else { single(c, c.to_uppercase()) }
            },
        )
    });
    functions.text("untitle", &[Text], None, |out, arguments, _| {
        each_char(
            out,
            bytes(arguments, 0),
            |c, in_word| {
                if in_word { c } else { single(c, c.to_lowercase()) }
            },
        )
    });
}

fn cut(functions: &mut Functions) {
    use Param::{Int, Text};
    functions.text("trim", &[Text], None, |out, arguments, _| {
        trim(out, bytes(arguments, 0), char::is_whitespace)
    });
    functions.text("trimAll", &[Text, Text], None, |out, arguments, _| {
        let set = String::from_utf8_lossy(bytes(arguments, 0)).into_owned();
        trim(out, bytes(arguments, 1), |c| set.contains(c))
    });
    functions.text("trimPrefix", &[Text, Text], None, |out, arguments, _| {
        let (prefix, text) = (bytes(arguments, 0), bytes(arguments, 1));
        put(out, text.strip_prefix(prefix).unwrap_or(text))
    });
    functions.text("trimSuffix", &[Text, Text], None, |out, arguments, _| {
        let (suffix, text) = (bytes(arguments, 0), bytes(arguments, 1));
        put(out, text.strip_suffix(suffix).unwrap_or(text))
    });
    functions.text("nospace", &[Text], None, |out, arguments, _| {
        let kept = unicode::runes(bytes(arguments, 0))
            .filter(|(c, _)| !c.is_some_and(char::is_whitespace));
        kept.for_each(|(_, raw)| out.push(raw));
        Ok(())
    });
    functions.text("trunc", &[Int, Text], None, truncate);
}

fn lengthen(functions: &mut Functions) {
    use Param::{Int, Text};
    functions.text("replace", &[Text, Text, Text], None, replace);
    functions.text("repeat", &[Int, Text], None, repeat);
    functions.text("indent", &[Int, Text], None, |out, arguments, _| indent(out, arguments));
    functions.text("nindent", &[Int, Text], None, |out, arguments, _| {
        out.push_byte(b'\n');
        indent(out, arguments)
    });
}

fn show(functions: &mut Functions) {
    use Param::{Any, Text};
    functions.text("squote", &[], Some(Any), |out, arguments, _| {
        for (index, value) in arguments.iter().filter(|value| !value.is_nil()).enumerate() {
            out.push_str(if index > 0 { " '" } else { "'" });
            print::show(out, value, print::Flags::default());
            out.push_byte(b'\'');
        }
        Ok(())
    });
    functions.text("cat", &[], Some(Any), |out, arguments, _| {
        for (index, value) in arguments.iter().filter(|value| !value.is_nil()).enumerate() {
            out.push_str(if index > 0 { " " } else { "" });
            print::show(out, value, print::Flags::default());
        }
        Ok(())
    });
    functions.text("join", &[Text, Any], None, join);
    functions.text("toString", &[Any], None, |out, arguments, _| {
        print::show(out, &any(arguments, 0), print::Flags::default());
        Ok(())
    });
}

fn search_and_split(functions: &mut Functions) {
    use Param::Text;
    functions.value("contains", &[Text, Text], None, |arguments, budget| {
        let part = bytes(arguments, 0);
        Ok(Value::Bool(part.is_empty() || pieces(bytes(arguments, 1), part, budget)?.len() > 1))
    });
    functions.value("hasPrefix", &[Text, Text], None, |arguments, _| {
        Ok(Value::Bool(bytes(arguments, 1).starts_with(bytes(arguments, 0))))
    });
    functions.value("hasSuffix", &[Text, Text], None, |arguments, _| {
        Ok(Value::Bool(bytes(arguments, 1).ends_with(bytes(arguments, 0))))
    });
    functions.value("splitList", &[Text, Text], None, |arguments, budget| {
        Ok(Value::texts(split(bytes(arguments, 1), bytes(arguments, 0), budget)?))
    });
    functions.value("split", &[Text, Text], None, |arguments, budget| {
        let parts = split(bytes(arguments, 1), bytes(arguments, 0), budget)?;
        let named = parts.into_iter().enumerate();
        Ok(Value::map(
            named.map(|(index, part)| (format!("_{index}").into_bytes().into(), part)).collect(),
        ))
    });
}

fn put(out: &mut Output, bytes: &[u8]) -> Result<(), FunctionError> {
    out.push(bytes);
    Ok(())
}

/// The other case of a character, where that is one character too.
fn single(c: char, mut other: impl Iterator<Item = char>) -> char {
    match (other.next(), other.next()) {
        (Some(other), None) => other,
        _ => c,
    }
}

fn each_char(
    out: &mut Output,
    bytes: &[u8],
    change: impl Fn(char, bool) -> char,
) -> Result<(), FunctionError> {
    let mut in_word = false;
    for (c, raw) in unicode::runes(bytes) {
        match c {
            Some(c) => out.push_char(change(c, in_word)),
            None => out.push(raw),
        }
        in_word = c.is_some_and(|c| c == '\'' || unicode::is_word(c));
    }
    Ok(())
}

fn trim(out: &mut Output, bytes: &[u8], drop: impl Fn(char) -> bool) -> Result<(), FunctionError> {
    let width = |c: Option<char>, raw: &[u8]| c.is_some_and(&drop).then_some(raw.len());
    let from: usize = unicode::runes(bytes).map_while(|(c, raw)| width(c, raw)).sum();
    // How much of the end is dropped is known once the end is reached.
    let tail = unicode::runes(bytes)
        .fold(0, |tail, (c, raw)| width(c, raw).map_or(0, |width| tail + width));
    put(out, bytes.get(from..bytes.len() - tail).unwrap_or_default())
}

/// The parts of a text between separators.
fn pieces<'t>(
    text: &'t [u8],
    separator: &[u8],
    budget: &mut Budget,
) -> Result<Vec<&'t [u8]>, FunctionError> {
    budget.charge(text.len())?;
    if let (Ok(text), Ok(separator)) = (std::str::from_utf8(text), std::str::from_utf8(separator)) {
        return Ok(text.split(separator).map(str::as_bytes).collect());
    }
    // Broken text has no fast search; its cost is charged instead.
    budget.charge(text.len().saturating_mul(separator.len()) / 16)?;
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(separator.len().max(1)).position(|window| window == separator)
    {
        parts.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + separator.len()..).unwrap_or_default();
    }
    parts.push(rest);
    Ok(parts)
}

fn replace(
    out: &mut Output,
    arguments: &[Value<'_>],
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    let (old, new, text) = (bytes(arguments, 0), bytes(arguments, 1), bytes(arguments, 2));
    if old.is_empty() {
        // Between all characters, and at both ends.
        for (_, raw) in unicode::runes(text) {
            out.push(new);
            out.push(raw);
        }
        return put(out, new);
    }
    for (index, piece) in pieces(text, old, budget)?.into_iter().enumerate() {
        if index > 0 {
            out.push(new);
        }
        out.push(piece);
    }
    Ok(())
}

fn repeat(out: &mut Output, arguments: &[Value<'_>], _: &mut Budget) -> Result<(), FunctionError> {
    let count = usize::try_from(int(arguments, 0))
        .map_err(|_| FunctionError::call("strings: negative Repeat count"))?;
    let text = bytes(arguments, 1);
    for _ in 0..if text.is_empty() { 0 } else { count } {
        out.push(text);
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

/// The first bytes, or with a negative count the last ones.
fn truncate(
    out: &mut Output,
    arguments: &[Value<'_>],
    _: &mut Budget,
) -> Result<(), FunctionError> {
    let (count, text) = (int(arguments, 0), bytes(arguments, 1));
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    put(
        out,
        match text.len().checked_sub(size) {
            Some(rest) if count < 0 && rest > 0 => text.get(rest..).unwrap_or(text),
            Some(_) if count >= 0 => text.get(..size).unwrap_or(text),
            _ => text,
        },
    )
}

fn indent(out: &mut Output, arguments: &[Value<'_>]) -> Result<(), FunctionError> {
    let width = usize::try_from(int(arguments, 0))
        .map_err(|_| FunctionError::call("strings: negative Repeat count"))?;
    for (index, line) in bytes(arguments, 1).split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.push_byte(b'\n');
        }
        out.fill(b' ', width);
        out.push(line);
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

/// A list, or one value, with a separator between its parts; what is not there is left out.
fn join(
    out: &mut Output,
    arguments: &[Value<'_>],
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    let separator = bytes(arguments, 0);
    let parts: Vec<Value<'_>> = match any(arguments, 1) {
        Value::List(list) => list.iter().filter(|part| !part.is_nil()).collect(),
        value if value.is_nil() => Vec::new(),
        value => vec![value],
    };
    budget.charge(parts.len().saturating_mul(size_of::<Value<'_>>()))?;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        print::show(out, part, print::Flags::default());
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

fn split<'a>(
    text: &[u8],
    separator: &[u8],
    budget: &mut Budget,
) -> Result<Vec<Value<'a>>, FunctionError> {
    budget.charge(text.len().saturating_mul(size_of::<Value<'_>>()))?;
    let part = |bytes: &[u8]| Value::Text(Text::from(bytes.to_vec()));
    if separator.is_empty() {
        return Ok(unicode::runes(text).map(|(_, raw)| part(raw)).collect());
    }
    Ok(pieces(text, separator, budget)?.into_iter().map(part).collect())
}
