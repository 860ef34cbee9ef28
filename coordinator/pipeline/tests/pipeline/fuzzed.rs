//! The law of the fuzz target, with the same samples, fed by proptest. More of them:
//! `PROPTEST_CASES=200000 cargo test -p muster-pipeline --test pipeline fuzzed`.

use proptest::prelude::*;

#[allow(clippy::expect_used, reason = "a law panics where it does not hold")]
#[path = "../../fuzz/laws.rs"]
mod law;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const WORDS: &[&str] =
    &["0", "-1", "2147483647", "a", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true", "\"\""];

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    muster_laws::hold(HERE, "pass", law::pass);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_pass_keeps_the_law(bytes in muster_laws::inputs(HERE, "pass", WORDS)) {
        law::pass(&bytes);
    }
}
