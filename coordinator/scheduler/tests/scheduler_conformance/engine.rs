//! The engine, as the cases see it.

use std::collections::BTreeMap;

use muster_scheduler::{config::Config, input::Document};

use crate::case::{Decision, Share};

/// What the engine makes of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Decisions, by pod.
    pub decisions: Vec<Decision>,
    /// Status and node by `namespace/name`.
    pub pods: BTreeMap<String, (String, String)>,
    /// By queue.
    pub fair_share: BTreeMap<String, Share>,
}

/// One cycle.
pub fn run(document: &Document) -> Outcome {
    let config = Config::of_document(document, &[]).unwrap();
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    Outcome { fair_share: crate::shares::of(&document.input, &config), ..Outcome::default() }
}
