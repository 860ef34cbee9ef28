//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Three kinds of input for each law: any bytes, any text, and samples with a few edits. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-agent --test agent laws`.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[allow(clippy::module_inception, reason = "the laws are laws here and there")]
#[path = "../../fuzz/laws.rs"]
mod laws;

use laws::{LAWS, Law};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// What is committed: names with an end, in order. What a fuzzer left there has none.
fn samples(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fuzz().join("corpus").join(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            found.push((file, fs::read(path).unwrap()));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{name} has no samples");
    found
}

#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    CutOff(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    // Bytes that mean something to parsers come more often than others.
    let byte =
        || prop_oneof![any::<u8>(), proptest::sample::select(&b"\0\n\t -:,./0179=\"{}[]|\xff"[..])];
    prop_oneof![
        4 => (any::<Index>(), byte()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (any::<Index>(), vec(byte(), 1..6)).prop_map(|(at, some)| Edit::Insert(at, some)),
        2 => (any::<Index>(), 1usize..40).prop_map(|(at, count)| Edit::Remove(at, count)),
        2 => (any::<Index>(), 1usize..200).prop_map(|(at, count)| Edit::Repeat(at, count)),
        1 => any::<Index>().prop_map(Edit::CutOff),
    ]
}

fn edited(mut bytes: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for edit in edits {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match edit {
            Edit::Set(at, byte) => bytes[at.index(length)] = byte,
            Edit::Insert(at, some) => {
                let at = at.index(length);
                bytes.splice(at..at, some);
            }
            Edit::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Edit::Repeat(at, count) => {
                let at = at.index(length);
                let some = bytes[at..(at + count).min(length)].to_vec();
                bytes.splice(at..at, some);
            }
            Edit::CutOff(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

fn inputs(name: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let good: Vec<Vec<u8>> = samples(name).into_iter().map(|(_, bytes)| bytes).collect();
    prop_oneof![
        1 => vec(any::<u8>(), 0..200),
        1 => "(?s).{0,200}".prop_map(String::into_bytes),
        4 => (proptest::sample::select(good), vec(edit(), 0..6))
            .prop_map(|(bytes, edits)| edited(bytes, edits)),
    ]
}

fn holds(name: &str) {
    let law: Law = LAWS.iter().find(|(known, _)| *known == name).unwrap().1;
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&inputs(name), |bytes| {
            law(&bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    for (name, law) in LAWS {
        for (file, bytes) in samples(name) {
            assert!(law(&bytes) || file.ends_with(".bad"), "{name}/{file} is not read");
        }
    }
}

#[test]
fn every_law_has_a_target_and_every_target_a_law() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let mut targets: Vec<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix("path = \"targets/")).collect();
    targets.sort_unstable();
    let files: Vec<String> = LAWS.iter().map(|(name, _)| format!("{name}.rs\"")).collect();
    assert_eq!(targets, files);
    for (name, _) in LAWS {
        let target = fs::read_to_string(fuzz().join(format!("targets/{name}.rs"))).unwrap();
        assert!(target.contains(&format!("laws::{name}(")), "{name}");
    }
}

mod any_input_keeps_the_laws_of {
    macro_rules! each {
        ($($name:ident)*) => {$(
            #[test]
            fn $name() {
                super::holds(stringify!($name));
            }
        )*};
    }
    each!(annotation ascend assign deliver kubelet link net nvidia sysfs unpack values wait);
}
