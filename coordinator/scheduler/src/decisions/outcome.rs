//! What a cycle has decided, once the actions have ended.

use std::collections::BTreeMap;

use crate::{
    framework::Point,
    session::Session,
    snapshot::{NodeId, Task, TaskId},
};

use super::{Decisions, Marks, PodOutcome, Share, ledger::group_names};

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

    pub(crate) fn later_bind_annotations(&self, task: TaskId) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::new();
        if let Some(node) = self.state.tasks[task].node {
            for plugin in self.at(Point::BindRequestMutate) {
                plugin.later_bind_request(self.view(), task, node, &mut annotations);
            }
        }
        annotations
    }

    /// What was decided.
    pub fn decisions(&mut self) -> Decisions {
        let decisions = self.ledger.take();
        let mut result = Decisions { decisions, ..Decisions::default() };
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
            if !job.remarks.is_empty() {
                result.remarks.insert(job.key(), job.remarks.clone());
            }
            if let Some(waiting) = self.waiting(id) {
                result.reasons.insert(job.key(), waiting);
            }
        }
        result
    }

    /// How far every pod of a group is, by `namespace/name`.
    pub fn outcomes(&self) -> BTreeMap<String, PodOutcome> {
        // Pods are in the order of their names already.
        let pods = self.snapshot.tasks.entries().filter(|(_, task)| task.job.is_some());
        let outcome = |(id, task): (TaskId, &Task)| {
            let state = &self.state.tasks[id];
            let shared =
                state.status.is_used() && self.snapshot.classes[task.class].gpu.is_shared();
            let name = |node: NodeId| self.snapshot.nodes[node].name.clone();
            let outcome = PodOutcome {
                status: state.status.name(),
                node: state.node.map(name).unwrap_or_default(),
                gpu_groups: if shared { group_names(&self.state, state) } else { Vec::new() },
            };
            (task.key.as_str().to_owned(), outcome)
        };
        pods.map(outcome).collect()
    }

    /// The fair share of each queue.
    pub fn fair_shares(&self) -> BTreeMap<String, Share> {
        self.snapshot
            .queues
            .entries()
            .filter_map(|(id, queue)| {
                let share = Share::new(&self.fair_share(id)?, &self.snapshot.dimensions);
                Some((queue.name.clone(), share))
            })
            .collect()
    }
}
