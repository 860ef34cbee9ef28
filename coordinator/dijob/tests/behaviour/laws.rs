//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Any bytes, and samples with a few edits. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-dijob --test behaviour laws`.
#![allow(clippy::expect_used, reason = "a law panics where it does not hold")]

use proptest::prelude::*;

#[path = "../../fuzz/laws.rs"]
mod laws;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const WORDS: &[&str] =
    &["0", "-1", "9", "a", "A", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true", "1e9"];

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    muster_laws::hold(HERE, "object", laws::object);
    muster_laws::hold(HERE, "request", laws::request);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_object_keeps_the_law(bytes in muster_laws::inputs(HERE, "object", WORDS)) {
        laws::object(&bytes);
    }

    #[test]
    fn any_request_keeps_the_law(bytes in muster_laws::inputs(HERE, "request", WORDS)) {
        laws::request(&bytes);
    }
}
