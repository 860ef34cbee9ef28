//! The engine, as the cases see it.

use std::collections::BTreeMap;

use muster_scheduler::{config::Config, decisions::Action, input::Document};

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
    let now = document.input.now.unwrap_or_default();
    let snapshot = muster_scheduler::snapshot::build(&document.input, &config.params, now);
    let decided = muster_scheduler::decide(&snapshot, &config, now);
    let action = |action: Action| match action {
        Action::Bind => "bind",
        Action::Evict => "evict",
        Action::Pipeline => "pipeline",
    };
    Outcome {
        decisions: decided
            .decisions
            .into_iter()
            .map(|it| Decision { pod: it.pod, action: action(it.action).to_owned(), node: it.node })
            .collect(),
        pods: decided.pods.into_iter().map(|(pod, it)| (pod, (it.status.to_owned(), it.node))).collect(),
        fair_share: decided
            .fair_share
            .into_iter()
            .map(|(queue, it)| (queue, Share { gpu: it.gpu, cpu: it.cpu, memory: it.memory }))
            .collect(),
    }
}
