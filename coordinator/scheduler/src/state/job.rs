//! How far groups are, and groups of which only some pods are looked at.

use std::rc::Rc;

use crate::snapshot::{Job, JobId, MemberKind, PodSetId, Snapshot, Status, TaskId};

use super::State;

/// Pods of a leaf by how far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodSetCount {
    /// All pods of the subgroup.
    pub all: usize,
    /// With a place, or one that was promised.
    pub active: usize,
    /// Of these, with one that was promised.
    pub pipelined: usize,
    /// On a node, leaving or not.
    pub used: usize,
    /// Running, about to, or waiting.
    pub alive: usize,
    /// Waiting for a gate.
    pub gated: usize,
}

/// A group, whole or with some of its pods only.
#[derive(Clone, Debug)]
pub struct Gang {
    /// The group that is placed.
    pub job: JobId,
    /// What of it; all if it does not say.
    pub part: Option<Rc<Part>>,
}

/// Some pods of a group, and how many of them are needed.
#[derive(Clone, Debug)]
pub struct Part {
    /// Pods by leaf, in the order in which they are placed.
    pub tasks: Vec<Vec<TaskId>>,
    /// How many each leaf needs.
    pub min: Vec<u32>,
    /// How many parts each inner member needs.
    pub min_parts: Vec<Option<u32>>,
}

// === impl PodSetCount ===

impl PodSetCount {
    /// Counts one pod, or takes one away.
    pub fn count(&mut self, status: Status, by: isize) {
        let shift = |counter: &mut usize, is: bool| {
            if is {
                *counter = counter.saturating_add_signed(by);
            }
        };
        shift(&mut self.all, true);
        shift(&mut self.active, status.is_active());
        shift(&mut self.pipelined, status == Status::Pipelined);
        shift(&mut self.used, status.is_used());
        shift(&mut self.alive, status.is_alive());
        shift(&mut self.gated, status == Status::Gated);
    }
}

// === impl Gang ===

impl Gang {
    /// All of a group.
    pub fn whole(job: JobId) -> Self {
        Self { job, part: None }
    }

    /// Some pods of a group, with the same needs.
    pub fn of(
        snapshot: &Snapshot,
        job: JobId,
        keep: impl Fn(TaskId) -> bool,
        state: &State,
    ) -> Self {
        let spec = &snapshot.jobs[job];
        let filter = |set: &PodSetId| {
            state.ordered[*set].iter().copied().filter(|task| keep(*task)).collect::<Vec<_>>()
        };
        let part = Part {
            tasks: spec.pod_sets.iter().map(filter).collect(),
            min: spec.pod_sets.iter().map(|set| snapshot.pod_sets[*set].min).collect(),
            min_parts: min_parts(spec),
        };
        Self { job, part: Some(Rc::new(part)) }
    }

    /// Some pods of a group, which needs no more than those.
    pub fn reduced(
        snapshot: &Snapshot,
        job: JobId,
        keep: impl Fn(TaskId) -> bool,
        state: &State,
    ) -> Self {
        let Self { part: Some(part), .. } = Self::of(snapshot, job, keep, state) else {
            return Self::whole(job);
        };
        let mut part = Rc::unwrap_or_clone(part);
        for (min, tasks) in part.min.iter_mut().zip(&part.tasks) {
            if !tasks.is_empty() {
                *min = (*min).min(tasks.len() as u32);
            }
        }
        part.reduce_parts(&snapshot.jobs[job], snapshot, crate::snapshot::ROOT);
        Self { job, part: Some(Rc::new(part)) }
    }

    /// Pods of a leaf in the order in which they are placed.
    pub fn tasks<'s>(
        &'s self,
        snapshot: &Snapshot,
        state: &'s State,
        set: PodSetId,
    ) -> &'s [TaskId] {
        match &self.part {
            Some(part) => part.tasks.get(snapshot.pod_sets[set].slot).map_or(&[], Vec::as_slice),
            None => &state.ordered[set],
        }
    }

    /// How many pods a leaf needs.
    pub fn min(&self, snapshot: &Snapshot, set: PodSetId) -> usize {
        let spec = &snapshot.pod_sets[set];
        let min = match &self.part {
            Some(part) => part.min.get(spec.slot).copied().unwrap_or(0),
            None => spec.min,
        };
        min as usize
    }

    /// How many parts an inner member needs, if it says.
    pub fn min_parts(&self, snapshot: &Snapshot, member: usize) -> Option<usize> {
        let min = match &self.part {
            Some(part) => part.min_parts.get(member).copied().flatten(),
            None => match snapshot.jobs[self.job].members.get(member).map(|member| &member.kind) {
                Some(MemberKind::Set { min, .. }) => *min,
                _ => None,
            },
        };
        min.map(|min| min as usize)
    }

    /// Pods of a leaf by how far they are.
    pub fn count(&self, snapshot: &Snapshot, state: &State, set: PodSetId) -> PodSetCount {
        if self.part.is_none() {
            return state.pod_sets[set];
        }
        let mut count = PodSetCount::default();
        for task in self.tasks(snapshot, state, set) {
            count.count(state.tasks[*task].status, 1);
        }
        count
    }

    /// All its pods.
    pub fn all_tasks<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        state: &'s State,
    ) -> impl Iterator<Item = TaskId> + 's {
        snapshot.jobs[self.job]
            .pod_sets
            .iter()
            .flat_map(move |set| self.tasks(snapshot, state, *set).iter().copied())
    }

    /// How many of its pods have a place.
    pub fn active(&self, snapshot: &Snapshot, state: &State) -> usize {
        let sets = &snapshot.jobs[self.job].pod_sets;
        sets.iter().map(|set| self.count(snapshot, state, *set).active).sum()
    }
}

// === impl Part ===

impl Part {
    /// Lowers how many parts are needed to how many have pods; says whether the member has any.
    fn reduce_parts(&mut self, job: &Job, snapshot: &Snapshot, member: usize) -> bool {
        match job.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Pods(set)) => {
                self.tasks.get(snapshot.pod_sets[*set].slot).is_some_and(|tasks| !tasks.is_empty())
            }
            Some(MemberKind::Set { children, .. }) => {
                let with_pods = children
                    .iter()
                    .filter(|child| self.reduce_parts(job, snapshot, **child))
                    .count() as u32;
                if let Some(Some(min)) = self.min_parts.get_mut(member) {
                    *min = (*min).min(with_pods);
                }
                with_pods > 0
            }
            None => false,
        }
    }
}

fn min_parts(job: &Job) -> Vec<Option<u32>> {
    job.members
        .iter()
        .map(|member| match &member.kind {
            MemberKind::Set { min, .. } => *min,
            MemberKind::Pods(_) => None,
        })
        .collect()
}
