//! Ways to make room, one after the other: the victims of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    framework::Generator,
    session::{JobOrder, Session},
    snapshot::{JobId, NodeId, TaskId, devices},
};

use super::{Batch, Probe, builder::Builder};

/// Ways to make room.
pub(super) struct Ways {
    generator: Generator,
    builder: Builder,
    begun: bool,
    ready: VecDeque<Vec<Batch>>,
    growing: Option<Growing>,
}

/// Victims of more and more nodes.
struct Growing {
    nodes: Vec<NodeId>,
    batches_of: BTreeMap<NodeId, Vec<usize>>,
    next: usize,
    step: usize,
}

// === impl Ways ===

impl Ways {
    pub(super) fn new(
        session: &Session<'_>,
        generator: Generator,
        victims: JobOrder,
        probe: &Probe<'_>,
    ) -> Self {
        let builder = Builder::new(session, victims, probe);
        Self { generator, builder, begun: false, ready: VecDeque::new(), growing: None }
    }

    /// The victims of the next way, those that are known to be needed left out.
    pub(super) fn next(
        &mut self,
        session: &mut Session<'_>,
        probe: &Probe<'_>,
    ) -> Option<Vec<Batch>> {
        loop {
            if let Some(victims) = self.ready.pop_front() {
                return Some(victims);
            }
            if let Some(victims) = self.grow() {
                return Some(victims);
            }
            let first = !std::mem::replace(&mut self.begun, true);
            let valid =
                if first { self.builder.is_valid(session) } else { self.builder.advance(session) };
            if !valid {
                if first {
                    continue;
                }
                return None;
            }
            match self.generator {
                Generator::NodeLocalGreedy => self.node_local(session, probe),
                Generator::MultiNodeGang if self.builder.potential.is_empty() => {
                    self.ready.push_back(Vec::new())
                }
                Generator::MultiNodeGang => {
                    self.growing = Some(Growing::new(session, probe, &self.builder.potential))
                }
            }
        }
    }

    /// For each node of the last victim: all victims so far of groups that have one there.
    fn node_local(&mut self, session: &Session<'_>, probe: &Probe<'_>) {
        let potential = &self.builder.potential;
        let Some(last) = potential.last() else {
            if !probe.recorded.is_empty() {
                self.ready.push_back(Vec::new());
            }
            return;
        };
        let node_of = |task: &TaskId| session.state.tasks[*task].node;
        let sets = &session.snapshot.jobs[last.job].pod_sets;
        let nodes: BTreeSet<NodeId> = sets
            .iter()
            .flat_map(|set| session.state.ordered[*set].iter())
            .filter_map(node_of)
            .collect();
        let mut seen: BTreeSet<Vec<TaskId>> = BTreeSet::new();
        for node in nodes {
            let there = |batch: &&Batch| batch.tasks.iter().any(|task| node_of(task) == Some(node));
            let jobs: BTreeSet<JobId> =
                potential.iter().filter(there).map(|batch| batch.job).collect();
            let victims: Vec<Batch> =
                potential.iter().filter(|batch| jobs.contains(&batch.job)).cloned().collect();
            let mut tasks: Vec<TaskId> =
                victims.iter().flat_map(|batch| batch.tasks.iter().copied()).collect();
            tasks.sort_unstable();
            if !victims.is_empty() && seen.insert(tasks) {
                self.ready.push_back(victims);
            }
        }
    }

    fn grow(&mut self) -> Option<Vec<Batch>> {
        let growing = self.growing.as_mut()?;
        match growing.next() {
            Some(picked) => {
                let potential = &self.builder.potential;
                Some(picked.into_iter().filter_map(|at| potential.get(at).cloned()).collect())
            }
            None => {
                self.growing = None;
                None
            }
        }
    }
}

// === impl Growing ===

impl Growing {
    fn new(session: &Session<'_>, probe: &Probe<'_>, potential: &[Batch]) -> Self {
        let (snapshot, state) = (session.snapshot, &session.state);
        let quota = |task: &TaskId| snapshot.classes[snapshot.tasks[*task].class].gpu.quota();
        let freed = |task: &TaskId| devices(&state.tasks[*task].accepted);
        let demand: f64 = probe.pending.iter().map(quota).sum();
        let least = probe.pending.iter().map(quota).fold(f64::INFINITY, f64::min);
        let mut recorded: BTreeMap<NodeId, f64> = BTreeMap::new();
        for task in probe.recorded.iter().flat_map(|batch| &batch.tasks) {
            if let Some(node) = state.tasks[*task].node {
                *recorded.entry(node).or_insert(0.0) += freed(task);
            }
        }
        let mut batches_of: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut seen_at: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut room: BTreeMap<NodeId, f64> = BTreeMap::new();
        let free =
            |node: NodeId| state.nodes[node].free_gpus(&snapshot.nodes[node], &snapshot.dimensions);
        let base = |node: NodeId| free(node) + recorded.get(&node).copied().unwrap_or(0.0);
        for (at, batch) in potential.iter().enumerate() {
            for task in &batch.tasks {
                let Some(node) = state.tasks[*task].node else { continue };
                let next = seen_at.len();
                seen_at.entry(node).or_insert(next);
                let list = batches_of.entry(node).or_default();
                if list.last() != Some(&at) {
                    list.push(at);
                }
                *room.entry(node).or_insert_with(|| base(node)) += freed(task);
            }
        }
        let room_of = |node: &NodeId| room.get(node).copied().unwrap_or(0.0);
        let mut nodes: Vec<NodeId> = batches_of
            .keys()
            .copied()
            .filter(|node| least <= 0.0 || room_of(node) >= least)
            .collect();
        let first_seen = |node: &NodeId| seen_at.get(node).copied();
        nodes.sort_by(|a, b| {
            room_of(a).total_cmp(&room_of(b)).then(first_seen(a).cmp(&first_seen(b)))
        });
        let baseline: f64 = probe
            .feasible
            .iter(session)
            .filter(|node| !batches_of.contains_key(node))
            .map(base)
            .sum();
        let missing = demand - baseline;
        let mut next = 0;
        if missing > 0.0 {
            let mut sum = 0.0;
            next = nodes.len() + 1;
            for (at, node) in nodes.iter().enumerate() {
                sum += room_of(node);
                if sum >= missing {
                    next = at + 1;
                    break;
                }
            }
        }
        Self { nodes, batches_of, next, step: 1 }
    }

    /// Batches that touch the next number of nodes.
    fn next(&mut self) -> Option<BTreeSet<usize>> {
        let count = self.next;
        let nodes = self.nodes.get(..count)?;
        let picked =
            nodes.iter().filter_map(|node| self.batches_of.get(node)).flatten().copied().collect();
        if count >= self.nodes.len() {
            self.next = self.nodes.len() + 1;
        } else {
            self.next = (count + self.step).min(self.nodes.len());
            self.step *= 2;
        }
        Some(picked)
    }
}
