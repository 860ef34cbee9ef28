//! The fields that Kubernetes knows, by type.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The Kubernetes whose fields these are.
pub const VERSION: &str = "1.34";

/// The table as it is kept; a test compares it with the types of the embedded Kubernetes.
pub(super) const TEXT: &str = include_str!("table.txt");

/// Field by field, the type of what is in it.
type Fields = BTreeMap<&'static str, Option<&'static str>>;

static TABLE: LazyLock<BTreeMap<&'static str, Fields>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &'static str| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        let field = |word: &'static str| match word.split_once('>') {
            Some((name, below)) => (name, Some(below)),
            None => (word, None),
        };
        Some((kind, words.map(field).collect()))
    };
    lines.filter_map(read).collect()
});

/// A field of a type, if it is known, and the type of what is in it, unless all of it is free.
pub(super) fn field(kind: &str, name: &str) -> Option<Option<&'static str>> {
    TABLE.get(kind)?.get(name).copied()
}

/// The fields of a type.
pub(super) fn fields(kind: &str) -> impl Iterator<Item = &'static str> {
    TABLE.get(kind).into_iter().flat_map(|fields| fields.keys().copied())
}
