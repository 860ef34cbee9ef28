//! The law of the fuzz target, with the same samples, fed by proptest. More of it:
//! `PROPTEST_CASES=200000 cargo test -p muster-podgrouper --test behaviour laws`.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[allow(clippy::module_inception, reason = "the laws are laws here and there")]
#[path = "../../fuzz/laws.rs"]
mod laws;

/// What is committed: names with an end, in order. What a fuzzer left there has none.
fn samples() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/cluster");
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

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    // Words that mean something come more often than bytes, so that most edits leave JSON behind.
    let words =
        ["0", "-1", "9", "a", "A", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true", "1e9"];
    let word = prop_oneof![
        4 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    let edit = (any::<Index>(), prop_oneof![Just(0), Just(1), 0..40_usize], word);
    let good: Vec<Vec<u8>> = samples().into_iter().map(|(_, bytes)| bytes).collect();
    prop_oneof![
        1 => vec(any::<u8>(), 0..200),
        8 => (select(good), vec(edit, 0..4)).prop_map(|(bytes, edits)| edited(bytes, edits)),
    ]
}

#[test]
fn every_sample_is_read_and_keeps_the_law() {
    let samples = samples();
    assert!(!samples.is_empty());
    for (file, bytes) in samples {
        assert!(laws::cluster(&bytes) || file.ends_with(".bad"), "{file} has no group");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_input_keeps_the_law(bytes in inputs()) {
        laws::cluster(&bytes);
    }
}
