//! `html`, `js`, `urlquery`: text made safe for another language.

use super::{Functions, Param};
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::unicode::{self, is_print};
use crate::value::{Text, Value};

pub(super) fn register(functions: &mut Functions) {
    let rest = Some(Param::Any);
    functions.text("html", &[], rest, |out, arguments, budget| {
        joined(out, arguments, budget, html);
        Ok(())
    });
    functions.text("js", &[], rest, |out, arguments, budget| {
        joined(out, arguments, budget, js);
        Ok(())
    });
    functions.text("urlquery", &[], rest, |out, arguments, budget| {
        joined(out, arguments, budget, url_query);
        Ok(())
    });
}

/// The arguments as `print` joins them, except that nothing reads `<no value>`.
fn joined(
    out: &mut Output,
    arguments: &[Value<'_>],
    budget: &Budget,
    escape: fn(&mut Output, &[u8]),
) {
    if let [Value::Text(text)] = arguments {
        return escape(out, text);
    }
    let shown: Vec<Value<'_>> = arguments
        .iter()
        .map(
            |value| {
                if value.is_nil() { Value::Text(Text::from("<no value>")) } else { value.clone() }
            },
        )
        .collect();
    let mut text = Output::new(budget.limits.output);
    print::join(&mut text, &shown);
    escape(out, text.as_bytes());
    out.set_over(text.is_over());
}

fn html(out: &mut Output, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            0 => out.push_char(unicode::REPLACEMENT),
            b'"' => out.push_str("&#34;"),
            b'\'' => out.push_str("&#39;"),
            b'&' => out.push_str("&amp;"),
            b'<' => out.push_str("&lt;"),
            b'>' => out.push_str("&gt;"),
            _ => out.push_byte(*byte),
        }
    }
}

fn js(out: &mut Output, bytes: &[u8]) {
    for (c, raw) in unicode::runes(bytes) {
        match c {
            Some('\\') => out.push_str("\\\\"),
            Some('\'') => out.push_str("\\'"),
            Some('"') => out.push_str("\\\""),
            Some(c)
                if c < ' '
                    || matches!(c, '<' | '>' | '&' | '=')
                    || (!c.is_ascii() && !is_print(c.into())) =>
            {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            // A broken byte reads as U+FFFD, which prints: it stays what it is.
            _ => out.push(raw),
        }
    }
}

fn url_query(out: &mut Output, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b' ' => out.push_byte(b'+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push_byte(*byte)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}
