//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Any bytes, and samples with a few edits. More of them: `PROPTEST_CASES=200000 cargo test -p muster-scheduler laws`.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../fuzz/laws.rs"]
mod fuzz;

/// Bytes in, asserts inside; says whether anything was read.
type Law = fn(&[u8]) -> bool;

const LAWS: [(&str, Law); 4] = [
    ("quantity", fuzz::quantity),
    ("configuration", fuzz::configuration),
    ("snapshot", fuzz::snapshot),
    ("selector", fuzz::selector),
];

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

fn inputs() -> impl Strategy<Value = (Law, Vec<u8>)> {
    let words = [
        "0", "-1", "9", "e9", "Ki", "m", "a", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true",
        ": ", "\n- ", "(", ")", "&&", ".all(x, ", "device", "[",
    ];
    let word = prop_oneof![
        4 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    let edit = (any::<Index>(), prop_oneof![Just(0), Just(1), 0..40_usize], word);
    let all = LAWS
        .iter()
        .flat_map(|(target, law)| samples(target).into_iter().map(|(_, bytes)| (*law, bytes)));
    let good: Vec<(Law, Vec<u8>)> = all.collect();
    prop_oneof![
        1 => (select(LAWS.to_vec()), vec(any::<u8>(), 0..200)).prop_map(|((_, law), bytes)| (law, bytes)),
        8 => (select(good), vec(edit, 0..4)).prop_map(|((law, bytes), edits)| (law, edited(bytes, edits))),
    ]
}

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    for (target, law) in LAWS {
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
    fn any_input_keeps_its_law((law, bytes) in inputs()) {
        law(&bytes);
    }
}
