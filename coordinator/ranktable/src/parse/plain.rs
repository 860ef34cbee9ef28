//! The plain form that nearly every parser template writes, read without a YAML parser.
//!
//! ```text
//!   podName: "w-0"
//!   serverId: "10.0.0.1"
//!   devices:
//!     - deviceId: "0"
//!       deviceIp: "10.20.0.2"
//! ```
//!
//! A hundred thousand ranks are megabytes of this, and a full parser needs longer for it than everything else
//! together. Whatever has another form, be it right or wrong, is left to that parser. What is read here is read
//! as it would read it, which a property test holds.

use std::borrow::Cow;

use super::node::{Entries, Node};

/// The nodes, if the text is of the plain form.
pub(super) fn read(text: &str) -> Option<Node<'_>> {
    let mut lines = text.lines_exactly().peekable();
    let mut pod: Entries<'_> = Vec::with_capacity(4);
    while let Some(line) = lines.next() {
        let (key, value) = entry(line)?;
        let value = match value {
            Value::Text(text) => text,
            Value::Open => match lines.peek().and_then(|next| dash(next)) {
                None => Node::Null,
                Some(dash) => list(&mut lines, dash)?,
            },
        };
        put(&mut pod, key, value)?;
    }
    (!pod.is_empty()).then_some(Node::Map(pod))
}

enum Value<'a> {
    Text(Node<'a>),
    /// Nothing on the line: a list follows, or it is null.
    Open,
}

/// The items of a list whose dashes stand in this column.
fn list<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    column: usize,
) -> Option<Node<'a>> {
    let mut items = Vec::new();
    while let Some(line) = lines.next_if(|line| dash(line) == Some(column)) {
        let mut item: Entries<'a> = Vec::with_capacity(2);
        put_text(&mut item, line.get(column + 2..)?)?;
        while let Some(line) = lines.next_if(|line| indent(line) == column + 2) {
            put_text(&mut item, line.get(column + 2..)?)?;
        }
        items.push(Node::Map(item));
    }
    Some(Node::List(items))
}

fn put_text<'a>(map: &mut Entries<'a>, line: &'a str) -> Option<()> {
    match entry(line)? {
        (key, Value::Text(text)) => put(map, key, text),
        (key, Value::Open) => put(map, key, Node::Null),
    }
}

/// Adds an entry; a key that is already there is not plain.
fn put<'a>(map: &mut Entries<'a>, key: &'a str, value: Node<'a>) -> Option<()> {
    if map.iter().any(|(there, _)| *there == key) {
        return None;
    }
    map.push((Cow::Borrowed(key), value));
    Some(())
}

/// `key: "text"` or `key:`, from the first byte of the line to the last.
fn entry(line: &str) -> Option<(&str, Value<'_>)> {
    let (key, rest) = line.split_once(':')?;
    // Shorter words and `false` can be something else than text.
    let fits = key.len() >= 5
        && key.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !key.eq_ignore_ascii_case("false");
    if !fits {
        return None;
    }
    let value = rest.trim_matches(' ');
    if value.is_empty() {
        return Some((key, Value::Open));
    }
    let text = rest.strip_prefix(' ')?.trim_matches(' ');
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    text.bytes().all(plain).then_some((key, Value::Text(Node::Text(Cow::Borrowed(text)))))
}

/// The column of the dash, if the line begins a list item with a key.
fn dash(line: &str) -> Option<usize> {
    let column = indent(line);
    line.get(column..)?.starts_with("- ").then_some(column)
}

fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

trait Lines {
    /// The lines that are not empty, by line feeds alone.
    fn lines_exactly(&self) -> impl Iterator<Item = &str>;
}

impl Lines for str {
    fn lines_exactly(&self) -> impl Iterator<Item = &str> {
        self.split('\n').filter(|line| !line.is_empty())
    }
}
