//! What must be true of every decision, whatever the cluster: checked on every recorded case and on random clusters.

#[path = "invariants/gangs.rs"]
mod gangs;
#[path = "invariants/generate.rs"]
pub mod generate;
#[path = "invariants/nodes.rs"]
mod nodes;
#[path = "invariants/queues.rs"]
mod queues;

use std::collections::{BTreeMap, BTreeSet};

use muster_scheduler::{
    decisions::{self, Decisions, PodOutcome},
    input::Input,
};

/// What came of a cycle, as the invariants see it.
#[derive(Debug, Default)]
pub struct Cycle {
    /// Pod, action and node.
    pub decisions: Vec<(String, Action, String)>,
    /// By `namespace/name`.
    pub pods: BTreeMap<String, Placed>,
    /// Who is evicted for which group; empty if it is for none.
    pub evicted_for: BTreeMap<String, String>,
}

/// What is done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It gets its place now.
    Bind,
    /// It loses its place.
    Evict,
    /// It gets its place when others have left it.
    Pipeline,
}

/// Where a pod is when the cycle has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// Its status.
    pub status: String,
    /// Its node; empty if none.
    pub node: String,
    /// The shared devices it has a part of.
    pub gpu_groups: Vec<String>,
}

// === impl Cycle ===

impl Cycle {
    /// What came of a cycle.
    pub fn of(decisions: &Decisions, pods: &BTreeMap<String, PodOutcome>) -> Self {
        let action = |action| match action {
            decisions::Action::Bind => Action::Bind,
            decisions::Action::Evict => Action::Evict,
            decisions::Action::Pipeline => Action::Pipeline,
        };
        let mut cycle = Self::default();
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
        for (pod, outcome) in pods {
            let placed = Placed {
                status: outcome.status.to_owned(),
                node: outcome.node.clone(),
                gpu_groups: outcome.gpu_groups.clone(),
            };
            cycle.pods.insert(pod.clone(), placed);
        }
        cycle
    }
}

// === impl Placed ===

impl Placed {
    /// Whether it has a place and keeps it, or gets one.
    pub fn stays(&self) -> bool {
        ["Running", "Bound", "Binding", "Allocated", "Pipelined"].contains(&self.status.as_str())
    }
}

/// Everything that is wrong with a cycle's decisions.
pub fn violations(input: &Input, cycle: &Cycle) -> Vec<String> {
    let mut wrong = once_each(cycle);
    wrong.extend(for_somebody(input, cycle));
    wrong.extend(nodes::violations(input, cycle));
    wrong.extend(gangs::violations(input, cycle));
    wrong.extend(queues::violations(input, cycle));
    wrong
}

/// No pod is evicted twice, or placed twice, or bound and evicted.
fn once_each(cycle: &Cycle) -> Vec<String> {
    let mut done: BTreeMap<&str, Vec<Action>> = BTreeMap::new();
    for (pod, action, _) in &cycle.decisions {
        done.entry(pod).or_default().push(*action);
    }
    let lawful = |actions: &[Action]| {
        matches!(
            actions,
            [_] | [Action::Evict, Action::Pipeline] | [Action::Pipeline, Action::Evict]
        )
    };
    let odd = done.iter().filter(|(_, actions)| !lawful(actions));
    odd.map(|(pod, actions)| format!("{pod}: {actions:?} in one cycle")).collect()
}

/// Nobody is evicted for a group that gets no place.
fn for_somebody(input: &Input, cycle: &Cycle) -> Vec<String> {
    let placed: BTreeSet<&str> = cycle
        .decisions
        .iter()
        .filter(|(_, action, _)| *action != Action::Evict)
        .map(|(pod, ..)| pod.as_str())
        .collect();
    let mut winners = BTreeSet::new();
    for pod in input.pods.iter().filter(|pod| placed.contains(pod.key().as_str())) {
        if let Some((_, group)) = pod.group() {
            winners.insert(format!("{}/{group}", pod.metadata.namespace));
        }
    }
    let losers = cycle.evicted_for.iter().filter(|(_, group)| !group.is_empty());
    losers
        .filter(|(_, group)| !winners.contains(*group))
        .map(|(pod, group)| format!("{pod}: evicted for {group}, which gets no place"))
        .collect()
}

/// The placed pods of the cycle, by name.
fn newly_placed(cycle: &Cycle) -> BTreeSet<&str> {
    let placed = cycle.decisions.iter().filter(|(_, action, _)| *action != Action::Evict);
    placed.map(|(pod, ..)| pod.as_str()).collect()
}
