//! Which field of a struct a protobuf number means. What JSON has inline is a message of its own in
//! protobuf, so that numbers nest: `2.19` is number 19 in the message at number 2.

use std::collections::BTreeMap;

/// The numbers of one protobuf message.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    parts: BTreeMap<u32, NumberPart>,
}

/// What one number stands for.
#[derive(Debug)]
pub(super) enum NumberPart {
    /// A field of the struct.
    Field {
        /// Its place in the struct.
        at: usize,
        /// Whether it (or each item of it) is a bare number on the wire.
        varint: bool,
    },
    /// A message whose fields JSON has inline.
    Inline(Numbers),
}

// === impl Numbers ===

impl Numbers {
    /// Reads what the table says of a struct's fields, in their order: `b1`, `v2.19`, or `-` for a
    /// field that protobuf does not have.
    pub fn read<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for (at, wire) in fields.enumerate() {
            let (varint, path) = match (wire.strip_prefix('v'), wire.strip_prefix('b')) {
                (Some(path), _) => (true, path),
                (_, Some(path)) => (false, path),
                _ => continue,
            };
            let path: Vec<u32> = path.split('.').filter_map(|n| n.parse().ok()).collect();
            all.place(&path, NumberPart::Field { at, varint });
        }
        all
    }

    fn place(&mut self, path: &[u32], part: NumberPart) {
        match path {
            [] => {}
            [last] => {
                self.parts.insert(*last, part);
            }
            [first, rest @ ..] => {
                let inline = || NumberPart::Inline(Self::default());
                if let NumberPart::Inline(inner) = self.parts.entry(*first).or_insert_with(inline) {
                    inner.place(rest, part);
                }
            }
        }
    }

    /// What the number stands for, where it is known.
    pub fn part(&self, number: u32) -> Option<&NumberPart> {
        self.parts.get(&number)
    }
}
