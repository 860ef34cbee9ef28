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

use std::iter::Peekable;

use super::{DeviceData, POD_KEYS, PodData};

/// The keys of a device; the last two are read here as long as they are null.
const PLAIN_KEYS: [&str; 7] =
    ["deviceId", "deviceIp", "superDeviceId", "logicId", "vnicIp", "levelList", "uuid"];

/// The pod, if the text is of the plain form.
pub(super) fn read(text: &str) -> Option<PodData> {
    let mut lines = lines(text).filter(|line| !line.is_empty()).peekable();
    let mut pod = PodData::default();
    let mut seen = Seen::default();
    while let Some(line) = lines.next() {
        let (key, value) = entry(line)?;
        seen.note(key, &POD_KEYS)?;
        match (key, value) {
            // A list cannot follow what has a value, and null is one.
            ("devices", Value::Null) if line.ends_with("null") && is_list(&mut lines) => {
                return None;
            }
            ("devices", Value::Null) => pod.devices = devices(&mut lines)?,
            ("devices", _) => return None,
            (key, Value::Text(text)) => pod.text(key)?.push_str(text),
            // With nothing on the line, what follows could belong to it.
            (_, Value::Null) if is_list(&mut lines) => return None,
            (_, Value::Null) => {}
        }
    }
    (!seen.is_empty()).then_some(pod)
}

enum Value<'a> {
    Text(&'a str),
    Null,
}

/// Which of the known keys have been there.
#[derive(Default)]
struct Seen {
    keys: u32,
    /// The key after the last one, which comes next if all are written in order.
    next: usize,
}

/// The lines. They are short: looking byte by byte finds an end sooner than what searches large texts.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == b'\n').unwrap_or(text.len());
        let (line, tail) = text.split_at_checked(end)?;
        rest = tail.get(1..);
        Some(line)
    })
}

/// Whether a list follows.
fn is_list<'a>(lines: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    lines.peek().is_some_and(|next| dash(next).is_some())
}

/// The devices, if a list of them follows.
fn devices<'a>(lines: &mut Peekable<impl Iterator<Item = &'a str>>) -> Option<Vec<DeviceData>> {
    let mut devices = Vec::new();
    let Some(column) = lines.peek().and_then(|line| dash(line)) else { return Some(devices) };
    devices.reserve(8);
    while let Some(line) = lines.next_if(|line| dash(line) == Some(column)) {
        let mut device = DeviceData::default();
        let mut seen = Seen::default();
        put(&mut device, &mut seen, line.get(column + 2..)?)?;
        while let Some(line) = lines.next_if(|line| indent(line) == column + 2) {
            put(&mut device, &mut seen, line.get(column + 2..)?)?;
        }
        devices.push(device);
    }
    Some(devices)
}

fn put(device: &mut DeviceData, seen: &mut Seen, line: &str) -> Option<()> {
    let (key, value) = entry(line)?;
    seen.note(key, &PLAIN_KEYS)?;
    if let Value::Text(text) = value {
        device.put(key, text)?;
    }
    Some(())
}

/// `key: "text"`, `key: 12`, `key: null` or `key:`, from the first byte of the line to the last.
fn entry(line: &str) -> Option<(&str, Value<'_>)> {
    let (key, rest) = line.split_at_checked(line.bytes().position(|byte| byte == b':')?)?;
    let rest = rest.get(1..)?;
    if rest.is_empty() || rest == " " || rest == " null" {
        return Some((key, Value::Null));
    }
    let value = rest.strip_prefix(' ')?;
    if let Some(text) = value.strip_prefix('"') {
        let text = text.strip_suffix('"')?;
        let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        return text.bytes().all(plain).then_some((key, Value::Text(text)));
    }
    let number = value.len() < 16 && crate::order::is_decimal(value);
    number.then_some((key, Value::Text(value)))
}

/// The column of the dash, if the line begins a list item with a key.
fn dash(line: &str) -> Option<usize> {
    let column = indent(line);
    line.get(column..)?.starts_with("- ").then_some(column)
}

fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

// === impl Seen ===

impl Seen {
    /// Notes a key that is known, in the known spelling, and new.
    fn note(&mut self, key: &str, keys: &[&str]) -> Option<()> {
        let at = match keys.get(self.next) {
            Some(next) if *next == key => self.next,
            _ => keys.iter().position(|known| *known == key)?,
        };
        self.next = at + 1;
        let new = self.keys & 1 << at == 0;
        self.keys |= 1 << at;
        new.then_some(())
    }

    fn is_empty(&self) -> bool {
        self.keys == 0
    }
}
