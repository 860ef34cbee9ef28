//! What must hold of every parser of outside input, whatever the input.
//!
//! ```text
//!   targets/*.rs (libFuzzer) ──────────┐
//!                                      ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/agent/laws.rs (proptest) ─┘
//! ```
//!
//! A law says that nothing panics, that what comes out is bounded and in order, and, where there is a printer, that what
//! was read prints as something that is read the same. Both sides use the same laws, so that whatever the fuzzer finds
//! becomes a test by putting its file into `corpus/`.

#[path = "laws/hardware.rs"]
mod hardware;
#[path = "laws/link.rs"]
mod link;
#[path = "laws/pods.rs"]
mod pods;
#[path = "laws/tables.rs"]
mod tables;

pub use hardware::{ascend, net, nvidia, sysfs};
pub use link::{link, values};
pub use pods::{annotation, assign, kubelet};
pub use tables::{deliver, unpack, wait};

/// Bytes in; whether a parser found something in them.
pub type Law = fn(&[u8]) -> bool;

/// Every law, by the name of its target.
pub const LAWS: [(&str, Law); 12] = [
    ("annotation", annotation),
    ("ascend", ascend),
    ("assign", assign),
    ("deliver", deliver),
    ("kubelet", kubelet),
    ("link", link),
    ("net", net),
    ("nvidia", nvidia),
    ("sysfs", sysfs),
    ("unpack", unpack),
    ("values", values),
    ("wait", wait),
];

/// Whether each is larger than the one before.
fn ascending<T: Ord>(items: &[T]) -> bool {
    items.is_sorted_by(|a, b| a < b)
}

/// Whether a text can be shown as it is: short, and nothing in it moves a cursor.
fn shown(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.contains(char::is_control)
}
