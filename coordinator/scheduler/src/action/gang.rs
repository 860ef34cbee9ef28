//! Places what a group would place next: all of it, or nothing.
//!
//! Each part of the group's tree gets sets of nodes from the plugins and tries them one after the other. Within a set
//! pods are placed greedily; if one finds no node, the set is given up.

use std::collections::BTreeMap;

use crate::{
    decisions::Attempt,
    framework::{NodeSet, Subset},
    reason::{NodeRefusal, Reason, Refusal},
    session::Session,
    snapshot::{MemberKind, PodSetId, ROOT, TaskId},
    state::Gang,
    statement::Statement,
};

// === impl Session ===

impl Session<'_> {
    /// Places what a group would place next. `promise` keeps it from taking anything now.
    pub fn allocate_gang(
        &mut self,
        statement: &mut Statement,
        nodes: &NodeSet,
        gang: &Gang,
        promise: bool,
    ) -> bool {
        self.pre_job_allocation(gang);
        let tasks = self.to_allocate(gang, !promise);
        if tasks.is_empty() {
            return false;
        }
        let too_large = self.snapshot.jobs[gang.job].too_large.as_ref();
        let too_large = too_large.map(|why| Refusal::new(Reason::NoRoom, why.as_str()));
        let lawful = too_large.map_or_else(|| self.job_over_capacity(gang, &tasks), Err);
        if let Err(refusal) = lawful {
            if !promise {
                self.ledger.refuse(gang.job, refusal);
            }
            return false;
        }
        self.allocate_member(statement, nodes, gang, ROOT, &tasks, promise)
    }

    fn allocate_member(
        &mut self,
        statement: &mut Statement,
        nodes: &NodeSet,
        gang: &Gang,
        member: usize,
        tasks: &[TaskId],
        promise: bool,
    ) -> bool {
        if tasks.is_empty() {
            return true;
        }
        let pod_sets = self.sets_of(tasks);
        let subset = Subset { gang, member, pod_sets: &pod_sets, tasks };
        let sets = match self.subset_nodes(&subset, nodes) {
            Ok(sets) => sets,
            Err(refusal) => {
                if !promise {
                    let needed = tasks.len();
                    let nodes = BTreeMap::new();
                    self.ledger.attempt(gang.job, Attempt { refusal, placed: 0, needed, nodes });
                }
                return false;
            }
        };
        for set in sets {
            let checkpoint = statement.checkpoint();
            if self.allocate_on(statement, &set, gang, member, tasks, promise) {
                return true;
            }
            self.rollback(statement, checkpoint);
        }
        false
    }

    fn allocate_on(
        &mut self,
        statement: &mut Statement,
        nodes: &NodeSet,
        gang: &Gang,
        member: usize,
        tasks: &[TaskId],
        promise: bool,
    ) -> bool {
        let job = &self.snapshot.jobs[gang.job];
        let Some(spec) = job.members.get(member) else { return false };
        if let MemberKind::Pods(_) = spec.kind {
            for (placed, task) in tasks.iter().enumerate() {
                if !self.place(statement, *task, nodes, promise) {
                    if !promise {
                        self.note_failure(gang, *task, placed, tasks.len());
                    }
                    return false;
                }
            }
            return true;
        }
        for child in self.ordered_children(gang, member) {
            let mut leaves = Vec::new();
            job.leaves(child, &mut leaves);
            let below: Vec<TaskId> = tasks
                .iter()
                .copied()
                .filter(|task| {
                    self.snapshot.tasks[*task].pod_set.is_some_and(|set| leaves.contains(&set))
                })
                .collect();
            if !self.allocate_member(statement, nodes, gang, child, &below, promise) {
                return false;
            }
        }
        true
    }

    fn sets_of(&self, tasks: &[TaskId]) -> Vec<PodSetId> {
        let mut sets: Vec<PodSetId> =
            tasks.iter().filter_map(|task| self.snapshot.tasks[*task].pod_set).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    /// Notes which pod found no node, and how many nodes refuse it why.
    fn note_failure(&mut self, gang: &Gang, task: TaskId, placed: usize, needed: usize) {
        let refusals = self.refusals(task);
        let all: u32 = refusals.iter().map(|(_, count)| count).sum();
        let fitting = self.snapshot.nodes.len() as u32 - all;
        let room: u32 =
            refusals.iter().filter(|(why, _)| why.is_room()).map(|(_, count)| count).sum();
        let reason = if room > 0 || fitting > 0 || refusals.is_empty() {
            Reason::NoRoom
        } else {
            Reason::NoNodeAllows
        };
        let dimensions = &self.snapshot.dimensions;
        let mut listed: Vec<&(NodeRefusal, u32)> = refusals.iter().collect();
        listed.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let why: Vec<String> =
            listed.iter().map(|(why, count)| format!("{count} {}", why.text(dimensions))).collect();
        let spec = &self.snapshot.tasks[task];
        let message = format!(
            "{placed} of {needed} pods found a node; {} did not: of {} nodes {}",
            spec.key.as_str(),
            self.snapshot.nodes.len(),
            if why.is_empty() { "none is left".to_owned() } else { why.join(", ") }
        );
        let nodes = refusals.iter().map(|(why, count)| (why.text(dimensions), *count)).collect();
        let attempt = Attempt { refusal: Refusal::new(reason, message), placed, needed, nodes };
        self.ledger.attempt(gang.job, attempt);
    }
}
