//! The law of the fuzz target, with the same samples, fed by proptest.
//!
//! Any bytes, and samples with a few edits. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-modelserving --test laws`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reads its samples, and a law panics where it does not hold"
)]

use proptest::prelude::*;

#[allow(clippy::module_inception, reason = "the laws are laws here and there")]
#[path = "../fuzz/laws.rs"]
mod laws;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const WORDS: &[&str] =
    &["0", "-1", "9", "a", "A", ".", "-", "é", "%", "null", "{}", "[]", "\"x\"", "true"];

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    muster_laws::hold(HERE, "object", laws::object);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_object_keeps_the_law(bytes in muster_laws::inputs(HERE, "object", WORDS)) {
        laws::object(&bytes);
    }
}
