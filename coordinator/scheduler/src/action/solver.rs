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
    session::{JobOrder, Session},
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
    nodes: NodeSet,
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

/// How many scenarios one way of searching tries for one group: work is counted, since a pure function has no clock.
const SCENARIOS: usize = 2000;

/// What a search for one group knows.
struct Search<'a> {
    job: JobId,
    tasks: &'a [TaskId],
    feasible: Feasible,
    /// Groups that may lose pods, the least deserving first.
    victims: JobOrder,
    failed: Failed,
    /// Scenarios that may still be tried in this way.
    left: usize,
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
        let victims = builder::order(session, self);
        let mut search =
            Search { job, tasks: &tasks, feasible, victims, failed: Failed::new(), left: 0 };
        for generator in session.generators() {
            let Some(solution) = self.solve_by(session, generator, &mut search) else { continue };
            let mut statement = solution.statement;
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
        generator: Generator,
        search: &mut Search<'_>,
    ) -> Option<Solution> {
        let all = search.tasks.len();
        search.left = SCENARIOS;
        let mut recorded: Vec<Batch> = Vec::new();
        let (mut solved, mut count) = (0, 1);
        let unsolved = loop {
            let Some(mut solution) = self.probe(session, generator, search, count, &recorded)
            else {
                break count;
            };
            if count == all && solution.all_gone {
                return Some(solution);
            }
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
            match self.probe(session, generator, search, middle, &recorded) {
                Some(mut solution) => {
                    session.discard(&mut solution.statement);
                    recorded = solution.recorded;
                    low = middle;
                }
                None => high = middle,
            }
        }
        // Once more with those alone who had to go: whoever turned out not to be needed stays.
        if low == 0 { None } else { self.probe(session, generator, search, all, &recorded) }
    }

    fn probe(
        &self,
        session: &mut Session<'_>,
        generator: Generator,
        search: &mut Search<'_>,
        count: usize,
        recorded: &[Batch],
    ) -> Option<Solution> {
        let pending = search.tasks.get(..count)?;
        let keep =
            |task: TaskId| session.state.tasks[task].status.is_active() || pending.contains(&task);
        let gang = Gang::reduced(session.snapshot, search.job, keep, &session.state);
        let request = session.request(&gang);
        let victims = recorded.iter().flat_map(|batch| &batch.tasks);
        let nodes =
            search.feasible.with(victims.filter_map(|task| session.state.tasks[*task].node));
        let feasible = Feasible { nodes };
        let probe = Probe { gang, pending, request, recorded: recorded.to_vec(), feasible };
        let mut ways = Ways::new(session, generator, search.victims.clone(), &probe);
        while let Some(potential) = ways.next(session, &probe) {
            let key = fingerprint(&probe, &potential);
            if search.failed.contains(&key) {
                continue;
            }
            search.left = search.left.checked_sub(1)?;
            match simulate::run(session, self.purpose, &probe, potential) {
                Some(solution) => return Some(solution),
                None => {
                    search.failed.insert(key);
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
        let tasks: Vec<TaskId> = gang.all_tasks(snapshot, &session.state).collect();
        if let Some(npus) = filter::npus(session, &tasks) {
            let has = |node: &NodeId| session.state.nodes[*node].free(npus) > 0.0;
            return Self { nodes: NodeSet::Some(snapshot.nodes.ids().filter(has).collect()) };
        }
        let mut tasks = tasks.into_iter();
        if tasks.any(|task| !snapshot.classes[snapshot.tasks[task].class].needs_gpu()) {
            return Self { nodes: NodeSet::All };
        }
        let dimensions = &snapshot.dimensions;
        let has_gpus = |node: &NodeId| {
            let (spec, state) = (&snapshot.nodes[*node], &session.state.nodes[*node]);
            state.idle_gpus(spec, dimensions).0 > 0.0
                || state.releasing_gpus(spec, dimensions).0 > 0.0
        };
        Self { nodes: NodeSet::Some(snapshot.nodes.ids().filter(has_gpus).collect()) }
    }

    /// With some nodes more.
    pub(super) fn with(&self, more: impl Iterator<Item = NodeId>) -> NodeSet {
        let NodeSet::Some(nodes) = &self.nodes else { return NodeSet::All };
        let mut more: Vec<NodeId> =
            more.filter(|node| nodes.binary_search(node).is_err()).collect();
        if more.is_empty() {
            return self.nodes.clone();
        }
        more.extend_from_slice(nodes);
        more.sort_unstable();
        more.dedup();
        NodeSet::Some(more.into())
    }

    /// All of them.
    pub(super) fn iter<'a>(
        &'a self,
        session: &'a Session<'_>,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let (every, some) = match &self.nodes {
            NodeSet::All => (Some(session.snapshot.nodes.ids()), &[][..]),
            NodeSet::Some(nodes) => (None, &nodes[..]),
        };
        every.into_iter().flatten().chain(some.iter().copied())
    }
}
