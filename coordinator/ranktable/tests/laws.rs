//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Any bytes, any text, and samples with a few edits. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-ranktable --test laws`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test reads its samples, and a law panics where it does not hold"
)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

#[allow(clippy::module_inception, reason = "the laws are laws here and there")]
#[path = "../fuzz/laws.rs"]
mod laws;

use laws::{LAWS, Law};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn fuzz() -> PathBuf {
    Path::new(HERE).join("fuzz")
}

fn inputs(name: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    // Bytes that mean something to parsers come more often than others.
    let byte = || prop_oneof![any::<u8>(), select(&b"\0\n -:,./0179=+%\"{}[]\\\xff"[..])];
    let edit = (any::<Index>(), prop_oneof![Just(0), Just(1), 0..40_usize], vec(byte(), 0..4));
    let good: Vec<Vec<u8>> =
        muster_laws::samples(HERE, name).into_iter().map(|(_, bytes)| bytes).collect();
    prop_oneof![
        1 => vec(any::<u8>(), 0..200),
        1 => "(?s).{0,200}".prop_map(String::into_bytes),
        4 => (select(good), vec(edit, 0..6)).prop_map(|(bytes, edits)| muster_laws::edited(bytes, edits)),
    ]
}

fn holds(name: &str) {
    let law: Law = LAWS.iter().find(|(known, _)| *known == name).unwrap().1;
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&inputs(name), |bytes| {
            law(&bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    for (name, law) in LAWS {
        muster_laws::hold(HERE, name, law);
    }
}

#[test]
fn every_law_has_a_target() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let targets: Vec<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix("path = \"targets/")).collect();
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
    each!(annotation_to_table check migrate numbering template_config_map);
}
