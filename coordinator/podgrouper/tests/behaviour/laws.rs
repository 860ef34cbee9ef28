//! The law of the fuzz target, with the same samples, fed by proptest. More of it:
//! `PROPTEST_CASES=200000 cargo test -p muster-podgrouper --test behaviour laws`.

use proptest::prelude::*;

#[allow(clippy::module_inception, reason = "the laws are laws here and there")]
#[path = "../../fuzz/laws.rs"]
mod laws;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const WORDS: &[&str] =
    &["0", "-1", "9", "a", "A", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true", "1e9"];

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    muster_laws::hold(HERE, "cluster", laws::cluster);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cluster_keeps_the_law(bytes in muster_laws::inputs(HERE, "cluster", WORDS)) {
        laws::cluster(&bytes);
    }
}
