//! The laws of the fuzz targets, with the same samples, fed by proptest.
//!
//! Any bytes, and samples with a few edits. More of them: `PROPTEST_CASES=200000 cargo test -p muster-scheduler laws`.

use muster_laws::Law;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

#[path = "../../fuzz/laws.rs"]
mod fuzz;

const LAWS: [(&str, Law); 4] = [
    ("quantity", fuzz::quantity),
    ("configuration", fuzz::configuration),
    ("snapshot", fuzz::snapshot),
    ("selector", fuzz::selector),
];

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn inputs() -> impl Strategy<Value = (Law, Vec<u8>)> {
    let words = [
        "0", "-1", "9", "e9", "Ki", "m", "a", ".", "-", "é", "null", "{}", "[]", "\"x\"", "true",
        ": ", "\n- ", "(", ")", "&&", ".all(x, ", "device", "[",
    ];
    let all = LAWS.iter().flat_map(|(target, law)| {
        muster_laws::samples(HERE, target).into_iter().map(|(_, bytes)| (*law, bytes))
    });
    let good: Vec<(Law, Vec<u8>)> = all.collect();
    prop_oneof![
        1 => (select(LAWS.to_vec()), vec(any::<u8>(), 0..200)).prop_map(|((_, law), bytes)| (law, bytes)),
        8 => (select(good), vec(muster_laws::edit(&words), 0..4)).prop_map(|((law, bytes), edits)| (law, muster_laws::edited(bytes, edits))),
    ]
}

#[test]
fn every_sample_is_read_and_keeps_its_law() {
    for (target, law) in LAWS {
        muster_laws::hold(HERE, target, law);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_input_keeps_its_law((law, bytes) in inputs()) {
        law(&bytes);
    }
}
