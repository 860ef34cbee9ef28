//! The engine, as the cases see it.

use std::collections::BTreeMap;

use muster_scheduler::{
    config::Config,
    decide_and_tell,
    decisions::{Decisions, PodOutcome},
    input::Document,
    snapshot::build,
};

/// One cycle: what was decided, and how far every pod is then.
pub fn run(document: &Document) -> (Decisions, BTreeMap<String, PodOutcome>) {
    let config = Config::of_document(document, &[]).unwrap();
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    let now = document.input.now.unwrap();
    decide_and_tell(&build(&document.input, &config.params, now), &config, now)
}
