//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Any bytes, and samples with a few edits. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-dijob --test behaviour laws`.
#![allow(clippy::expect_used, reason = "a law panics where it does not hold")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../fuzz/laws.rs"]
mod laws;

/// What is committed: names with an end, in order. What a fuzzer left there has none.
fn samples(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        (file, fs::read(path).unwrap())
    };
    let mut samples: Vec<_> = paths.filter(|path| path.extension().is_some()).map(read).collect();
    samples.sort();
    samples
}

/// Says whether anything was read.
type Law = fn(&[u8]) -> bool;

/// At a place, so many bytes are replaced by others.
type Edit = (Index, usize, Vec<u8>);

fn edited(mut bytes: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for (at, removed, added) in edits {
        let at = at.index(bytes.len() + 1);
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, added);
    }
    bytes
}

fn inputs(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let words =
        ["0", "-1", "9", "a", "A", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true", "1e9"];
    let word = prop_oneof![
        4 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    let edit = (any::<Index>(), prop_oneof![Just(0), Just(1), 0..40_usize], word);
    let good: Vec<Vec<u8>> = samples(target).into_iter().map(|(_, bytes)| bytes).collect();
    prop_oneof![
        1 => vec(any::<u8>(), 0..200),
        8 => (select(good), vec(edit, 0..4)).prop_map(|(bytes, edits)| edited(bytes, edits)),
    ]
}

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    let laws: [(&str, Law); 2] = [("object", laws::object), ("request", laws::request)];
    for (target, law) in laws {
        let samples = samples(target);
        assert!(!samples.is_empty());
        for (file, bytes) in samples {
            assert!(law(&bytes) || file.ends_with(".bad"), "{target}/{file} is not read");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_object_keeps_the_law(bytes in inputs("object")) {
        laws::object(&bytes);
    }

    #[test]
    fn any_request_keeps_the_law(bytes in inputs("request")) {
        laws::request(&bytes);
    }
}
