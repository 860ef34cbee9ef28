//! The engine, as the cases see it.

use muster_scheduler::{
    config::Config,
    decide,
    decisions::{Action, Decisions},
    input::Document,
    snapshot::build,
};

use crate::invariants::{self, Cycle, Placed};

/// One cycle.
pub fn run(document: &Document) -> Decisions {
    let config = Config::of_document(document, &[]).unwrap();
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    let now = document.input.now.unwrap();
    decide(&build(&document.input, &config.params, now), &config, now)
}

/// What came of it, as the invariants see it.
pub fn cycle(decisions: &Decisions) -> Cycle {
    let action = |action| match action {
        Action::Bind => invariants::Action::Bind,
        Action::Evict => invariants::Action::Evict,
        Action::Pipeline => invariants::Action::Pipeline,
    };
    let mut cycle = Cycle::default();
    for decision in &decisions.decisions {
        cycle.decisions.push((
            decision.pod.clone(),
            action(decision.action),
            decision.node.clone(),
        ));
        if let Some(eviction) = &decision.eviction {
            let whom = eviction.beneficiary.clone().unwrap_or_default();
            cycle.evicted_for.insert(decision.pod.clone(), whom);
        }
    }
    for (pod, outcome) in &decisions.pods {
        let placed = Placed {
            status: outcome.status.to_owned(),
            node: outcome.node.clone(),
            gpu_groups: outcome.gpu_groups.clone(),
        };
        cycle.pods.insert(pod.clone(), placed);
    }
    cycle
}
