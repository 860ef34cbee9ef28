//! Names that fit a label.

use std::fmt::Write;

use sha1::{Digest, Sha1};

/// No value of a label is longer.
const LONGEST: usize = 63;
/// So much of the digest tells two long names apart.
const DIGITS: usize = 10;

/// The name, or where it is too long its beginning and a digest of all of it. The same name always becomes the same.
pub(super) fn label(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let room = LONGEST - DIGITS - 1;
    let end = (0..=room).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    let mut short = name[..end].trim_end_matches(['-', '.', '_']).to_owned();
    short.push('-');
    for byte in Sha1::digest(name.as_bytes()).iter().take(DIGITS / 2) {
        // Writing to a text cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}
