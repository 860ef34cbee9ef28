//! The engine, as the cases see it.

use muster_scheduler::{
    config::Config, decide, decisions::Decisions, input::Document, snapshot::build,
};

/// One cycle.
pub fn run(document: &Document) -> Decisions {
    let config = Config::of_document(document, &[]).unwrap();
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    let now = document.input.now.unwrap();
    decide(&build(&document.input, &config.params, now), &config, now)
}
