//! The laws of fuzz targets as property tests, with the same samples.
//!
//! ```text
//!   fuzz/targets/*.rs (libFuzzer) ──┐
//!                                   ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   samples, edited (proptest) ─────┘
//! ```
#![allow(clippy::panic, clippy::unwrap_used, reason = "only tests call it")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Bytes in, asserts inside; says whether anything was read.
pub type Law = fn(&[u8]) -> bool;

/// At a place, so many bytes are replaced by others.
pub type Edit = (Index, usize, Vec<u8>);

/// The committed samples of a target of the crate at `manifest`: files with an extension, in order of their names. What a
/// fuzzer left there has none.
pub fn samples(manifest: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(manifest).join("fuzz/corpus").join(target);
    let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |path: PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        (file, fs::read(path).unwrap())
    };
    let mut samples: Vec<_> = paths.filter(|path| path.extension().is_some()).map(read).collect();
    samples.sort();
    assert!(!samples.is_empty(), "{target} has no samples");
    samples
}

/// Whether every sample keeps the law and is read, unless it is called `.bad`.
pub fn hold(manifest: &str, target: &str, law: Law) {
    for (file, bytes) in samples(manifest, target) {
        assert!(law(&bytes) || file.ends_with(".bad"), "{target}/{file} is not read");
    }
}

/// The bytes after these edits.
pub fn edited(mut bytes: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for (at, removed, added) in edits {
        let at = at.index(bytes.len() + 1);
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, added);
    }
    bytes
}

/// One edit. Words that mean something come more often than bytes, so that most edits leave something to read.
pub fn edit(words: &[&'static str]) -> impl Strategy<Value = Edit> + use<> {
    let word = prop_oneof![
        4 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    (any::<Index>(), prop_oneof![Just(0), Just(1), 0..40_usize], word)
}

/// Any bytes, and more often samples of the target with a few edits.
pub fn inputs(
    manifest: &str,
    target: &str,
    words: &[&'static str],
) -> impl Strategy<Value = Vec<u8>> + use<> {
    let good: Vec<Vec<u8>> =
        samples(manifest, target).into_iter().map(|(_, bytes)| bytes).collect();
    prop_oneof![
        1 => vec(any::<u8>(), 0..200),
        8 => (select(good), vec(edit(words), 0..4)).prop_map(|(bytes, edits)| edited(bytes, edits)),
    ]
}
