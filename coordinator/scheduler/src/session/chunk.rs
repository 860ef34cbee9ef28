//! What a group would place next, and what it would lose next.
//!
//! A part that does not have what it needs places all of that at once; one that has it grows by one pod, or by one
//! part, at a time. Loss goes the other way: what is above the need first, then everything.

use std::{cmp::Ordering, rc::Rc};

use crate::{
    framework::{PartSide, Point},
    snapshot::{
        GpuKind, JobId, MemberKind, NOTHING, PodSetId, Quantities, ROOT, Status, TaskId, plus,
    },
    state::{Gang, TaskState},
};

use super::{Chunk, Session};

// === impl TaskState ===

impl TaskState {
    /// Whether it waits for a place: really, or because this cycle tries without it.
    pub fn waits(&self, real: bool) -> bool {
        self.status == Status::Pending
            || (!real && self.status == Status::Releasing && self.tentative)
    }
}

// === impl Session ===

impl Session<'_> {
    /// The pods that a group would place next.
    pub fn to_allocate(&self, gang: &Gang, real: bool) -> Rc<[TaskId]> {
        self.chunk(gang, real).tasks
    }

    /// What those ask for, as queues count it.
    pub fn request(&self, gang: &Gang) -> Quantities {
        self.chunk(gang, false).request
    }

    fn chunk(&self, gang: &Gang, real: bool) -> Chunk {
        let version = self.state.jobs[gang.job].version;
        let row = gang.job.0 as usize;
        if gang.part.is_none()
            && let Some(Some(chunk)) = self.chunks.borrow().get(row)
            && chunk.version == version
            && chunk.real == real
        {
            return chunk.clone();
        }
        let mut tasks = Vec::new();
        self.collect(gang, ROOT, real, &mut tasks);
        let request = tasks.iter().map(|task| self.task_request(*task)).fold(NOTHING, plus);
        let chunk = Chunk { version, real, tasks: tasks.into(), request };
        if gang.part.is_none()
            && let Some(place) = self.chunks.borrow_mut().get_mut(row)
        {
            *place = Some(chunk.clone());
        }
        chunk
    }

    /// What a pod asks for, memory of devices by the smallest device of the cluster.
    pub fn task_request(&self, task: TaskId) -> Quantities {
        let class = &self.snapshot.classes[self.snapshot.tasks[task].class];
        match self.snapshot.min_gpu_memory {
            Some(of) if class.gpu.kind == GpuKind::Memory => self
                .snapshot
                .dimensions
                .with_gpus(class.quantities, |gpus| gpus + class.gpu.memory_fraction(of)),
            _ => class.quantities,
        }
    }

    fn side<'a>(&'a self, gang: &Gang, member: usize) -> PartSide<'a> {
        let Some(spec) = self.snapshot.jobs[gang.job].members.get(member) else {
            return PartSide { name: "", is_pod_set: false, active: 0, min: 0 };
        };
        match &spec.kind {
            MemberKind::Pods(set) => PartSide {
                name: &spec.name,
                is_pod_set: true,
                active: gang.count(self.snapshot, &self.state, *set).active,
                min: gang.min(self.snapshot, *set),
            },
            MemberKind::Set { children, .. } => PartSide {
                name: &spec.name,
                is_pod_set: false,
                active: children.iter().filter(|child| self.is_satisfied(gang, **child)).count(),
                min: gang.min_parts(self.snapshot, member).unwrap_or(children.len()),
            },
        }
    }

    /// Whether a part has what it needs.
    pub fn is_satisfied(&self, gang: &Gang, member: usize) -> bool {
        let side = self.side(gang, member);
        side.active >= side.min
    }

    /// Parts of a part, the first to be placed first.
    pub fn ordered_children(&self, gang: &Gang, member: usize) -> Vec<usize> {
        let job = &self.snapshot.jobs[gang.job];
        let Some(MemberKind::Set { children, .. }) =
            job.members.get(member).map(|member| &member.kind)
        else {
            return Vec::new();
        };
        let mut sides: Vec<_> =
            children.iter().map(|child| (*child, self.side(gang, *child))).collect();
        if sides.len() > 1 {
            sides.sort_by(|(_, left), (_, right)| self.part_order(*left, *right));
        }
        sides.into_iter().map(|(child, _)| child).collect()
    }

    fn part_order(&self, left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
        let both = left.is_pod_set && right.is_pod_set;
        let point = if both { Point::PodSetOrder } else { Point::SubGroupSetOrder };
        self.at(point)
            .map(|plugin| {
                if both {
                    plugin.pod_set_order(self.view(), left, right)
                } else {
                    plugin.sub_group_order(self.view(), left, right)
                }
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.name.cmp(right.name))
    }

    fn collect(&self, gang: &Gang, member: usize, real: bool, out: &mut Vec<TaskId>) {
        let job = &self.snapshot.jobs[gang.job];
        match job.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Pods(set)) => self.collect_pods(gang, *set, real, out),
            Some(MemberKind::Set { .. }) => {
                let side = self.side(gang, member);
                let children = self.ordered_children(gang, member);
                if side.active < side.min {
                    for child in children.into_iter().take(side.min) {
                        if !self.is_satisfied(gang, child) {
                            self.collect(gang, child, real, out);
                        }
                    }
                    return;
                }
                for child in children {
                    self.collect(gang, child, real, out);
                    if !out.is_empty() {
                        return;
                    }
                }
            }
            None => {}
        }
    }

    fn collect_pods(&self, gang: &Gang, set: PodSetId, real: bool, out: &mut Vec<TaskId>) {
        let active = gang.count(self.snapshot, &self.state, set).active;
        let min = gang.min(self.snapshot, set);
        let wanted = if active >= min { 1 } else { min - active };
        let waiting = gang.tasks(self.snapshot, &self.state, set).iter().copied();
        out.extend(waiting.filter(|task| self.state.tasks[*task].waits(real)).take(wanted));
    }

    /// The pods that a group would lose next, and whether it has more.
    pub fn to_evict(&self, gang: &Gang) -> (Vec<TaskId>, bool) {
        let mut tasks = self.surplus(gang, ROOT);
        if tasks.is_empty() {
            self.all_active(gang, ROOT, &mut tasks);
        }
        let more = tasks.len() < gang.active(self.snapshot, &self.state);
        (tasks, more)
    }

    fn surplus(&self, gang: &Gang, member: usize) -> Vec<TaskId> {
        let job = &self.snapshot.jobs[gang.job];
        match job.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Pods(set)) => {
                let active = gang.count(self.snapshot, &self.state, *set).active;
                if active <= gang.min(self.snapshot, *set) {
                    return Vec::new();
                }
                self.active_from_last(gang, *set).take(1).collect()
            }
            Some(MemberKind::Set { .. }) => {
                let side = self.side(gang, member);
                if side.active == 0 {
                    return Vec::new();
                }
                let mut children = self.ordered_children(gang, member);
                children.reverse();
                if self.has_surplus(gang, member) {
                    for child in &children {
                        let tasks = self.surplus(gang, *child);
                        if !tasks.is_empty() {
                            return tasks;
                        }
                    }
                }
                if side.min < side.active {
                    for child in children {
                        let mut tasks = Vec::new();
                        self.all_active(gang, child, &mut tasks);
                        if !tasks.is_empty() {
                            return tasks;
                        }
                    }
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn has_surplus(&self, gang: &Gang, member: usize) -> bool {
        let side = self.side(gang, member);
        if side.active > side.min {
            return true;
        }
        let job = &self.snapshot.jobs[gang.job];
        match job.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Set { children, .. }) => {
                children.iter().any(|child| self.has_surplus(gang, *child))
            }
            _ => false,
        }
    }

    fn all_active(&self, gang: &Gang, member: usize, out: &mut Vec<TaskId>) {
        let mut sets = Vec::new();
        self.snapshot.jobs[gang.job].leaves(member, &mut sets);
        for set in sets {
            out.extend(self.active_from_last(gang, set));
        }
    }

    fn active_from_last<'a>(
        &'a self,
        gang: &'a Gang,
        set: PodSetId,
    ) -> impl Iterator<Item = TaskId> + 'a {
        let tasks = gang.tasks(self.snapshot, &self.state, set).iter().rev().copied();
        tasks.filter(|task| self.state.tasks[*task].status.is_active())
    }

    /// Whether a group has pods enough to be tried.
    pub fn is_ready(&self, gang: &Gang, member: usize) -> bool {
        let job = &self.snapshot.jobs[gang.job];
        match job.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Pods(set)) => {
                let count = gang.count(self.snapshot, &self.state, *set);
                count.alive.saturating_sub(count.gated) >= gang.min(self.snapshot, *set)
            }
            Some(MemberKind::Set { children, .. }) => {
                let ready = children.iter().filter(|child| self.is_ready(gang, **child)).count();
                ready >= gang.min_parts(self.snapshot, member).unwrap_or(children.len())
            }
            None => false,
        }
    }

    /// Whether every leaf has, leaving pods included, what it needs.
    pub fn is_gang_satisfied(&self, job: JobId) -> bool {
        let sets = &self.snapshot.jobs[job].pod_sets;
        sets.iter()
            .all(|set| self.state.pod_sets[*set].used >= self.snapshot.pod_sets[*set].min as usize)
    }

    /// Pods of a group on nodes, leaving ones included.
    pub fn used(&self, job: JobId) -> usize {
        self.snapshot.jobs[job].pod_sets.iter().map(|set| self.state.pod_sets[*set].used).sum()
    }
}
