//! What has been decided so far in a cycle.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    reason::{Eviction, Reason, Refusal},
    snapshot::{JobId, NodeId, Snapshot, TaskId},
    state::{State, TaskState},
};

use super::{Action, Decision, claim, totals};

/// On whose behalf a transaction is.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The action that decided it.
    pub action: &'static str,
    /// The group that gets room; none if nobody does.
    pub beneficiary: Option<JobId>,
}

/// What has been decided so far.
#[derive(Debug, Default)]
pub struct Ledger {
    decisions: Vec<(TaskId, Decision)>,
    settled: BTreeSet<JobId>,
    lost: BTreeSet<JobId>,
    pub(super) refusals: BTreeMap<JobId, Attempt>,
}

/// How far the last attempt to place a group went.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What was refused.
    pub refusal: Refusal,
    /// Pods that found a place.
    pub placed: usize,
    /// Pods that had to.
    pub needed: usize,
    /// Nodes by why they refuse.
    pub nodes: BTreeMap<String, u32>,
}

// === impl Ledger ===

impl Ledger {
    /// Notes what keeps a group waiting. What was noted first stays, except that a lack of room gives way.
    pub fn refuse(&mut self, job: JobId, refusal: Refusal) {
        self.attempt(job, Attempt { refusal, placed: 0, needed: 0, nodes: BTreeMap::new() });
    }

    /// Notes how far an attempt went.
    pub fn attempt(&mut self, job: JobId, attempt: Attempt) {
        let weak = |reason: Reason| matches!(reason, Reason::NoRoom | Reason::NoDomainHasRoom);
        match self.refusals.get(&job) {
            Some(known) if !weak(known.refusal.reason) || weak(attempt.refusal.reason) => {}
            _ => {
                self.refusals.insert(job, attempt);
            }
        }
    }

    /// Whether pods of a group were bound or evicted in this cycle. Nobody is bound and evicted, or evicted twice,
    /// within one.
    pub fn is_settled(&self, job: JobId) -> bool {
        self.settled.contains(&job)
    }

    /// Whether a group lost pods in this cycle. It waits for the next one: the pods that it has left are no gang.
    pub fn has_lost(&self, job: JobId) -> bool {
        self.lost.contains(&job)
    }

    /// Forgets what kept a group waiting.
    pub fn forgive(&mut self, job: JobId) {
        self.refusals.remove(&job);
    }

    /// What was decided, by pod. A pod that is promised a place, loses it to another and gets a new one has the last.
    /// What was only promised and is lost again is an eviction from nowhere: there is nothing to delete.
    pub(super) fn take(&mut self) -> Vec<Decision> {
        let mut made: Vec<Option<(TaskId, Decision)>> =
            std::mem::take(&mut self.decisions).into_iter().map(Some).collect();
        // Numbers are sorted, not the decisions: those are large, and their names are far apart.
        let key = |(at, it): (usize, &Option<(TaskId, Decision)>)| {
            it.as_ref().map(|(task, it)| (*task, it.action, Reverse(at)))
        };
        let mut order: Vec<_> = made.iter().enumerate().filter_map(key).collect();
        order.sort_unstable();
        order.dedup_by_key(|(task, action, _)| (*task, *action));
        let picked = order.into_iter().filter_map(|(_, _, Reverse(at))| made.get_mut(at)?.take());
        let mut decisions: Vec<Decision> = picked.map(|(_, decision)| decision).collect();
        // Almost always in order already: only where one namespace begins with another it is not.
        decisions.sort_by(|a, b| (&a.pod, a.action).cmp(&(&b.pod, b.action)));
        decisions
    }

    pub(crate) fn bind(
        &mut self,
        snapshot: &Snapshot,
        state: &State,
        task: TaskId,
        annotations: BTreeMap<String, String>,
    ) {
        self.settled.extend(snapshot.tasks[task].job);
        let (claims, extended_claim) = claim::of_task(snapshot, state, task);
        let decision = decision(snapshot, state, task, Action::Bind);
        let decision = Decision { annotations, claims, extended_claim, ..decision };
        self.decisions.push((task, decision));
    }

    pub(crate) fn pipeline(
        &mut self,
        snapshot: &Snapshot,
        state: &State,
        task: TaskId,
        annotations: BTreeMap<String, String>,
    ) {
        let decision = decision(snapshot, state, task, Action::Pipeline);
        self.decisions.push((task, Decision { annotations, ..decision }));
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of an eviction")]
    pub(crate) fn evict(
        &mut self,
        snapshot: &Snapshot,
        node: NodeId,
        before: &TaskState,
        task: TaskId,
        cause: &Cause,
        lawful: String,
        moved: bool,
    ) {
        self.settled.extend(snapshot.tasks[task].job);
        self.lost.extend(snapshot.tasks[task].job.filter(|_| !moved));
        let eviction = Eviction {
            action: cause.action,
            beneficiary: cause.beneficiary.map(|job| snapshot.jobs[job].key()),
            lawful,
            freed: totals(&before.accepted, &snapshot.dimensions),
            moved,
        };
        let decision = Decision {
            pod: snapshot.tasks[task].key.as_str().to_owned(),
            action: Action::Evict,
            node: if snapshot.tasks[task].node.is_some() {
                snapshot.nodes[node].name.clone()
            } else {
                String::new()
            },
            gpu_groups: Vec::new(),
            claims: Vec::new(),
            extended_claim: None,
            annotations: BTreeMap::new(),
            eviction: Some(eviction),
        };
        self.decisions.push((task, decision));
    }
}

fn decision(snapshot: &Snapshot, state: &State, task: TaskId, action: Action) -> Decision {
    let placed = &state.tasks[task];
    let shared = snapshot.classes[snapshot.tasks[task].class].gpu.is_shared();
    Decision {
        pod: snapshot.tasks[task].key.as_str().to_owned(),
        action,
        node: placed.node.map(|node| snapshot.nodes[node].name.clone()).unwrap_or_default(),
        gpu_groups: if shared { group_names(state, placed) } else { Vec::new() },
        claims: Vec::new(),
        extended_claim: None,
        annotations: BTreeMap::new(),
        eviction: None,
    }
}

pub(super) fn group_names(state: &State, task: &TaskState) -> Vec<String> {
    task.groups.iter().filter_map(|group| state.groups.get(group.0 as usize).cloned()).collect()
}
