//! Random clusters: what must be true of every decision is, and the order of objects does not matter.

use std::collections::BTreeMap;

use muster_scheduler::{
    config::Config,
    decide_and_tell,
    decisions::{Decisions, PodOutcome},
    input::{Document, Limits, load},
    simulate,
    snapshot::build,
};
use serde_json::Value;

use crate::invariants::{
    Cycle,
    generate::{Source, cluster},
    violations,
};

/// More of them: `CLUSTERS=20000 cargo test -p muster-scheduler clusters`.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("CLUSTERS").ok().and_then(|text| text.parse().ok());
    0..count.unwrap_or(150)
}

fn read(document: &Value) -> (Document, Config) {
    let document = load(document.to_string().as_bytes(), Limits::default()).unwrap();
    let config = Config::of_document(&document, &[]).unwrap();
    (document, config)
}

fn run(document: &Document, config: &Config) -> (Decisions, BTreeMap<String, PodOutcome>) {
    let now = document.input.now.unwrap();
    decide_and_tell(&build(&document.input, &config.params, now), config, now)
}

#[test]
fn every_decision_on_a_random_cluster_is_lawful_for_several_cycles() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let (mut document, config) = read(&cluster(seed));
        for cycle in 0..3 {
            let (decisions, pods) = run(&document, &config);
            let found = violations(&document.input, &Cycle::of(&decisions, &pods));
            wrong.extend(
                found.into_iter().map(|found| format!("seed {seed}, cycle {cycle}: {found}")),
            );
            let now = document.input.now.unwrap() + jiff::SignedDuration::from_secs(1);
            simulate::apply(&mut document.input, &decisions, now);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

#[test]
fn the_order_of_objects_does_not_matter() {
    for seed in seeds().step_by(3) {
        let document = cluster(seed);
        let mut shuffled = document.clone();
        let mut source = Source::new(seed + 1);
        for list in shuffled.as_object_mut().unwrap().values_mut().filter_map(Value::as_array_mut) {
            source.shuffle(list);
        }
        let [one, other] = [document, shuffled].map(|document| {
            let (document, config) = read(&document);
            run(&document, &config)
        });
        assert_eq!(one, other, "seed {seed}");
    }
}
