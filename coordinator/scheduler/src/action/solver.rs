//! Finding whom to evict so that a group can run.
//!
//! The search asks for more and more of the group's pods at once: one, two, four … all. What had to go for fewer pods
//! goes for more pods too. A way to make room ([`generator`]) is tried for real in a transaction ([`simulate`]): victims
//! lose their places, then everybody concerned is placed anew in the order of queues. Victims that get their place back
//! are none; those that find another one move. What works and is lawful is kept.

mod bound;
mod builder;
mod domain;
mod filter;
mod generator;
mod simulate;

use std::collections::BTreeSet;

use crate::{
    framework::{Generator, NodeSet},
    session::Session,
    snapshot::{JobId, NodeId, Quantities, TaskId},
    state::Gang,
    statement::Statement,
};

use self::{generator::Ways, simulate::Solution};

/// What room is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Reclaim,
    Preempt,
    Consolidation,
}

/// Pods that lose their places together: all of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) job: JobId,
    pub(super) tasks: Vec<TaskId>,
}

/// Nodes on which room is looked for.
#[derive(Clone, Debug)]
pub(super) struct Feasible {
    all: bool,
    nodes: BTreeSet<NodeId>,
}

/// A group's pods of which some are to be placed, and whom that has cost so far.
pub(super) struct Probe<'a> {
    pub(super) gang: Gang,
    pub(super) pending: &'a [TaskId],
    pub(super) request: Quantities,
    pub(super) recorded: Vec<Batch>,
    pub(super) feasible: Feasible,
}

/// A search for one group.
pub(super) struct Solver<'a> {
    pub(super) purpose: Purpose,
    /// Groups that may lose pods.
    pub(super) candidates: &'a [JobId],
}

/// Scenarios that did not work: pods to place, and pods to evict.
type Failed = BTreeSet<(usize, Vec<TaskId>, Vec<TaskId>)>;

// === impl Solver ===

impl Solver<'_> {
    /// A transaction that makes room for what a group would place next.
    pub(super) fn solve(&self, session: &mut Session<'_>, job: JobId) -> Option<Statement> {
        let whole = Gang::whole(job);
        let tasks = session.to_allocate(&whole, false);
        if tasks.is_empty() || self.candidates.is_empty() || session.ledger.has_lost(job) {
            return None;
        }
        if !bound::can_be_enough(session, job, &tasks, self.candidates) {
            return None;
        }
        let used = session.used(job);
        let feasible = Feasible::of(session, job);
        if let Some(statement) = self.solve_by_domain(session, job, &tasks, &feasible) {
            return Some(statement);
        }
        let mut failed = Failed::new();
        for generator in session.generators() {
            let mut statement =
                match self.solve_by(session, job, &tasks, generator, &feasible, &mut failed) {
                    Some(solution) => solution.statement,
                    None => continue,
                };
            if session.is_gang_satisfied(job) && session.used(job) > used {
                return Some(statement);
            }
            session.discard(&mut statement);
        }
        None
    }

    fn solve_by(
        &self,
        session: &mut Session<'_>,
        job: JobId,
        tasks: &[TaskId],
        generator: Generator,
        feasible: &Feasible,
        failed: &mut Failed,
    ) -> Option<Solution> {
        let all = tasks.len();
        let mut recorded: Vec<Batch> = Vec::new();
        let mut probe = |session: &mut Session<'_>, count: usize, recorded: &[Batch]| {
            self.probe(session, job, tasks, count, generator, feasible, recorded, failed)
        };
        let (mut solved, mut count) = (0, 1);
        let unsolved = loop {
            let Some(mut solution) = probe(session, count, &recorded) else { break count };
            session.discard(&mut solution.statement);
            recorded = solution.recorded;
            solved = count;
            if count == all {
                break all + 1;
            }
            count = (count * 2).min(all);
        };
        let (mut low, mut high) = (solved, unsolved);
        while high - low > 1 {
            let middle = (low + high) / 2;
            match probe(session, middle, &recorded) {
                Some(mut solution) => {
                    session.discard(&mut solution.statement);
                    recorded = solution.recorded;
                    low = middle;
                }
                None => high = middle,
            }
        }
        if low == 0 { None } else { probe(session, all, &recorded) }
    }

    #[expect(clippy::too_many_arguments, reason = "what one probe needs")]
    fn probe(
        &self,
        session: &mut Session<'_>,
        job: JobId,
        tasks: &[TaskId],
        count: usize,
        generator: Generator,
        feasible: &Feasible,
        recorded: &[Batch],
        failed: &mut Failed,
    ) -> Option<Solution> {
        let pending = tasks.get(..count)?;
        let keep =
            |task: TaskId| session.state.tasks[task].status.is_active() || pending.contains(&task);
        let gang = Gang::reduced(session.snapshot, job, keep, &session.state);
        let request = session.request(&gang);
        let mut feasible = feasible.clone();
        let victims = recorded.iter().flat_map(|batch| &batch.tasks);
        feasible.nodes.extend(victims.filter_map(|task| session.state.tasks[*task].node));
        let probe = Probe { gang, pending, request, recorded: recorded.to_vec(), feasible };
        let mut ways = Ways::new(session, generator, self, &probe);
        while let Some(potential) = ways.next(session, &probe) {
            let key = fingerprint(&probe, &potential);
            if failed.contains(&key) {
                continue;
            }
            match simulate::run(session, self.purpose, &probe, potential) {
                Some(solution) => return Some(solution),
                None => {
                    failed.insert(key);
                }
            }
        }
        None
    }
}

fn fingerprint(probe: &Probe<'_>, potential: &[Batch]) -> (usize, Vec<TaskId>, Vec<TaskId>) {
    let sorted = |batches: &[Batch]| {
        let mut tasks: Vec<TaskId> =
            batches.iter().flat_map(|batch| batch.tasks.iter().copied()).collect();
        tasks.sort_unstable();
        tasks
    };
    (probe.pending.len(), sorted(&probe.recorded), sorted(potential))
}

// === impl Feasible ===

impl Feasible {
    fn of(session: &Session<'_>, job: JobId) -> Self {
        let snapshot = session.snapshot;
        let gang = Gang::whole(job);
        let all = gang
            .all_tasks(snapshot, &session.state)
            .any(|task| !snapshot.classes[snapshot.tasks[task].class].needs_gpu());
        if all {
            return Self { all, nodes: BTreeSet::new() };
        }
        let dimensions = &snapshot.dimensions;
        let has_gpus = |node: &NodeId| {
            let (spec, state) = (&snapshot.nodes[*node], &session.state.nodes[*node]);
            state.idle_gpus(spec, dimensions).0 > 0.0
                || state.releasing_gpus(spec, dimensions).0 > 0.0
        };
        Self { all, nodes: snapshot.nodes.ids().filter(has_gpus).collect() }
    }

    /// With some nodes more.
    pub(super) fn with(&self, more: impl Iterator<Item = NodeId>) -> NodeSet {
        if self.all {
            return NodeSet::All;
        }
        let mut nodes = self.nodes.clone();
        nodes.extend(more);
        NodeSet::Some(nodes.into_iter().collect())
    }

    /// All of them.
    pub(super) fn iter<'a>(
        &'a self,
        session: &'a Session<'_>,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let every = self.all.then(|| session.snapshot.nodes.ids()).into_iter().flatten();
        every.chain(self.nodes.iter().copied().filter(|_| !self.all))
    }
}
