//! What a cycle decides, and why.

mod claim;
mod lawful;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    framework::Point,
    reason::{Eviction, Reason, Refusal, Waiting},
    session::Session,
    snapshot::{JobId, NodeId, Quantities, Snapshot, TaskId},
    state::{State, TaskState},
};

pub use self::claim::{ClaimAllocation, ContainerMapping, ExtendedAllocation, ExtendedRequest};

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It gets a node.
    Bind,
    /// It is deleted.
    Evict,
    /// It gets a node as soon as others have left.
    Pipeline,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `namespace/name`.
    pub pod: String,
    /// What is to be done.
    pub action: Action,
    /// Where it goes, or was; nowhere if it had a promise only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Devices that it shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_groups: Vec<String>,
    /// Devices that its claims get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimAllocation>,
    /// Devices that stand for its extended resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_claim: Option<ExtendedAllocation>,
    /// Annotations of its bind request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Why it is evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
}

/// A pod when the actions have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// How far it is.
    pub status: &'static str,
    /// Where.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Devices that it shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_groups: Vec<String>,
}

/// Amounts of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Accelerators.
    pub gpu: f64,
    /// Thousandths of processors.
    pub cpu: f64,
    /// Bytes.
    pub memory: f64,
}

/// What a cycle decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decisions {
    /// By pod.
    pub decisions: Vec<Decision>,
    /// Every pod of a group.
    pub pods: BTreeMap<String, PodOutcome>,
    /// Fair shares when the cycle began.
    pub fair_share: BTreeMap<String, Share>,
    /// What keeps groups waiting.
    pub reasons: BTreeMap<String, Waiting>,
    /// Timestamps that groups get.
    pub marks: BTreeMap<String, Marks>,
}

/// Timestamps that a group gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<jiff::Timestamp>,
    /// When it lost a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_eviction: Option<jiff::Timestamp>,
    /// Since when it runs with too few pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<jiff::Timestamp>,
}

/// On whose behalf a transaction is.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The action.
    pub action: &'static str,
    /// The group that gets room; none if nobody does.
    pub beneficiary: Option<JobId>,
}

/// What has been decided so far.
#[derive(Debug, Default)]
pub struct Ledger {
    decisions: Vec<Decision>,
    settled: BTreeSet<JobId>,
    lost: BTreeSet<JobId>,
    refusals: BTreeMap<JobId, Attempt>,
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
        self.decisions.push(decision);
    }

    pub(crate) fn pipeline(&mut self, snapshot: &Snapshot, state: &State, task: TaskId) {
        self.decisions.push(decision(snapshot, state, task, Action::Pipeline));
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
            freed: before.accepted,
            moved,
        };
        self.decisions.push(Decision {
            pod: snapshot.tasks[task].key(),
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
        });
    }
}

fn decision(snapshot: &Snapshot, state: &State, task: TaskId, action: Action) -> Decision {
    let placed = &state.tasks[task];
    let shared = snapshot.classes[snapshot.tasks[task].class].gpu.is_shared();
    Decision {
        pod: snapshot.tasks[task].key(),
        action,
        node: placed.node.map(|node| snapshot.nodes[node].name.clone()).unwrap_or_default(),
        gpu_groups: if shared { group_names(state, placed) } else { Vec::new() },
        claims: Vec::new(),
        extended_claim: None,
        annotations: BTreeMap::new(),
        eviction: None,
    }
}

fn group_names(state: &State, task: &TaskState) -> Vec<String> {
    task.groups.iter().filter_map(|group| state.groups.get(group.0 as usize).cloned()).collect()
}

// === impl Share ===

impl From<Quantities> for Share {
    fn from([cpu, memory, gpu]: Quantities) -> Self {
        Self { gpu, cpu, memory }
    }
}

// === impl Session ===

impl Session<'_> {
    pub(crate) fn bind_annotations(&self, task: TaskId) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::new();
        if let Some(node) = self.state.tasks[task].node {
            for plugin in self.at(Point::BindRequestMutate) {
                plugin.bind_request(self.view(), task, node, &mut annotations);
            }
        }
        annotations
    }

    /// What was decided.
    pub fn decisions(&mut self) -> Decisions {
        let mut decisions = std::mem::take(&mut self.ledger.decisions);
        // A pod that is promised a place, loses it to another and gets a new one has the last. What was only promised
        // and is lost again is an eviction from nowhere: there is nothing to delete.
        decisions.reverse();
        decisions.sort_by(|a, b| (&a.pod, a.action).cmp(&(&b.pod, b.action)));
        decisions
            .dedup_by(|earlier, later| earlier.pod == later.pod && earlier.action == later.action);
        let mut result = Decisions { decisions, ..Decisions::default() };
        // Pods are in the order of their names already.
        let pods = self.snapshot.tasks.entries().filter(|(_, task)| task.job.is_some()).map(
            |(id, task)| {
                let state = &self.state.tasks[id];
                let shared =
                    state.status.is_used() && self.snapshot.classes[task.class].gpu.is_shared();
                let outcome = PodOutcome {
                    status: state.status.name(),
                    node: state
                        .node
                        .map(|node| self.snapshot.nodes[node].name.clone())
                        .unwrap_or_default(),
                    gpu_groups: if shared { group_names(&self.state, state) } else { Vec::new() },
                };
                (task.key(), outcome)
            },
        );
        result.pods = pods.collect();
        for (id, job) in self.snapshot.jobs.entries() {
            let state = &self.state.jobs[id];
            let changed = state.last_start != job.last_start
                || state.last_eviction != job.last_eviction
                || state.stale_since != job.stale_since;
            if changed {
                let marks = Marks {
                    last_start: state.last_start,
                    last_eviction: state.last_eviction,
                    stale_since: state.stale_since,
                };
                result.marks.insert(job.key(), marks);
            }
            if let Some(waiting) = self.waiting(id) {
                result.reasons.insert(job.key(), waiting);
            }
        }
        result
    }

    /// Fair shares.
    pub fn fair_shares(&self) -> BTreeMap<String, Share> {
        self.snapshot
            .queues
            .entries()
            .filter_map(|(id, queue)| Some((queue.name.clone(), Share::from(self.fair_share(id)?))))
            .collect()
    }
}
