//! What a cycle changes: who is where, what nodes have left, how far groups are.
//!
//! Every change goes through [`State`], which keeps counters in step and notes which nodes changed, so that whoever
//! remembers something about nodes looks at those alone.

mod job;
mod node;

use std::{rc::Rc, sync::Arc};

use jiff::Timestamp;

use crate::snapshot::{
    Claimed, Class, Dimensions, GroupId, Id, JobId, NOTHING, NodeId, PodSetId, Quantities,
    Snapshot, Status, Table, Task, TaskId,
};

pub use self::{
    job::{Gang, Part, PodSetCount},
    node::{NodeState, OnNode, SharedDevice, memory_of},
};

/// A pod in this cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskState {
    /// How far it is.
    pub status: Status,
    /// The node that the pod is on, or about to be.
    pub node: Option<NodeId>,
    /// The shared devices it has.
    pub groups: Vec<GroupId>,
    /// Whether its status exists in this cycle only.
    pub tentative: bool,
    /// What it counts against its queue on its node.
    pub accepted: Quantities,
    /// Resources per NUMA zone.
    pub numa: Vec<(usize, usize, f64)>,
    /// NPUs of its node that it has.
    pub npus: Option<Arc<[u32]>>,
    /// Devices of its claims, on its node.
    pub claims: Option<Arc<[Claimed]>>,
}

/// A group in this cycle.
#[derive(Clone, Debug)]
pub struct JobState {
    /// When it last started.
    pub last_start: Option<Timestamp>,
    /// When it last lost a pod to another.
    pub last_eviction: Option<Timestamp>,
    /// Since when it has run with too few pods.
    pub stale_since: Option<Timestamp>,
    /// Pods that wait for a place.
    pub pending: usize,
    /// Pods that ended well.
    pub succeeded: usize,
    /// What its pods with a place ask for, as queues count.
    pub allocated: Quantities,
    /// Grows with every change of a pod.
    pub version: u64,
}

/// What a cycle changes.
#[derive(Clone, Debug)]
pub struct State {
    /// State of each pod.
    pub tasks: Table<TaskId, TaskState>,
    /// State of each node.
    pub nodes: Table<NodeId, NodeState>,
    /// Leaves of groups.
    pub pod_sets: Table<PodSetId, PodSetCount>,
    /// State of each group.
    pub jobs: Table<JobId, JobState>,
    /// Names of shared devices, those of this cycle included.
    pub groups: Vec<String>,
    /// How many shared devices the snapshot knew.
    pub known_groups: usize,
    /// Pods of each leaf in the order in which they are placed.
    pub ordered: Table<PodSetId, Rc<[TaskId]>>,
    changes: Vec<NodeId>,
}

// === impl State ===

impl State {
    /// The state before anything is decided.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut state = Self {
            tasks: snapshot
                .tasks
                .iter()
                .map(|task| TaskState {
                    status: task.status,
                    node: task.node,
                    groups: task.groups.clone(),
                    tentative: false,
                    accepted: NOTHING,
                    numa: task.numa.clone(),
                    npus: task.npus.clone(),
                    claims: given_claims(snapshot, task),
                })
                .collect(),
            nodes: snapshot
                .nodes
                .iter()
                .map(|node| NodeState::new(node, &snapshot.dimensions))
                .collect(),
            pod_sets: snapshot.pod_sets.iter().map(|_| PodSetCount::default()).collect(),
            jobs: snapshot
                .jobs
                .iter()
                .map(|job| JobState {
                    last_start: job.last_start,
                    last_eviction: job.last_eviction,
                    stale_since: job.stale_since,
                    pending: 0,
                    succeeded: 0,
                    allocated: NOTHING,
                    version: 0,
                })
                .collect(),
            groups: snapshot.groups.clone(),
            known_groups: snapshot.groups.len(),
            ordered: snapshot.pod_sets.iter().map(|set| Rc::from(set.tasks.as_slice())).collect(),
            changes: Vec::new(),
        };
        // Reservations first, and what is promised last: who has a part of a device takes it from the node, and who only
        // will have one takes nothing yet. The other way round nobody would take it.
        let turn = |task: &Task| match (task.reservation, task.status) {
            (true, _) => 0,
            (false, Status::Pipelined) => 2,
            (false, _) => 1,
        };
        let on_nodes = |wanted: u8| {
            let entries = snapshot.tasks.entries();
            entries.filter(move |(_, task)| turn(task) == wanted && task.status.is_used())
        };
        for (id, task) in (0..3).flat_map(on_nodes) {
            if let Some(node) = task.node {
                state.put(snapshot, id, node);
            }
        }
        // A pod on a node that nobody knows, or on its way to one, is its queue's all the same.
        for (id, task) in snapshot.tasks.entries() {
            if task.node.is_none() && task.status.is_active() {
                state.tasks[id].accepted = weight(snapshot, task);
            }
        }
        for node in state.nodes.iter_mut() {
            node.hold_promised();
        }
        state.guess_npus(snapshot);
        for (id, task) in snapshot.tasks.entries() {
            if task.pod_set.is_some() {
                state.count(snapshot, id, task.status, 1);
            }
        }
        state.changes.clear();
        state
    }

    /// Pods that do not say which NPUs they have are taken to have those that they would get.
    fn guess_npus(&mut self, snapshot: &Snapshot) {
        for (id, node) in snapshot.nodes.entries() {
            let Some(npus) = &node.npus else { continue };
            let there = &mut self.nodes[id].pods;
            for at in 0..there.len() {
                let Some(pod) = there.get(at).filter(|pod| pod.npus.is_none()) else { continue };
                let task = pod.task;
                let class = &snapshot.classes[snapshot.tasks[task].class];
                let count = crate::snapshot::at(&class.request, class.primary) as usize;
                let taken = |npu: u32| {
                    there.iter().any(|pod| pod.npus.as_ref().is_some_and(|it| it.contains(&npu)))
                };
                let guess = npus.choose(class.primary, count, &taken).map(|it| it.devices);
                if let Some(pod) = there.get_mut(at) {
                    pod.npus.clone_from(&guess);
                }
                self.tasks[task].npus = guess;
            }
        }
    }

    /// Nodes in the order in which they changed, from a point that [`State::clock`] gave.
    pub fn changed_since(&self, clock: usize) -> &[NodeId] {
        self.changes.get(clock..).unwrap_or(&[])
    }

    /// Nodes that changed since a point, those that changed often perhaps named often; all nodes if that is less to do.
    pub fn to_look_at(&self, clock: usize) -> impl Iterator<Item = NodeId> + '_ {
        let changed = self.changed_since(clock);
        let all = changed.len() > self.nodes.len();
        let every = all.then(|| self.nodes.ids()).into_iter().flatten();
        let some = if all { &[][..] } else { changed };
        // A node that changes again right after is looked at then.
        let last = some.iter().enumerate().filter(|(at, node)| some.get(at + 1) != Some(*node));
        every.chain(last.map(|(_, node)| *node))
    }

    /// The point up to which changes are known.
    pub fn clock(&self) -> usize {
        self.changes.len()
    }

    /// Notes that a node changed.
    pub fn touch(&mut self, node: NodeId) {
        self.changes.push(node);
    }

    /// A shared device that nobody has used.
    pub fn new_group(&mut self, name: String) -> GroupId {
        let id = GroupId::of(self.groups.len());
        self.groups.push(name);
        id
    }

    /// The name of a shared device.
    pub fn group_name(&self, group: GroupId) -> &str {
        self.groups.get(group.0 as usize).map_or("", String::as_str)
    }

    /// Forgets devices that a rolled back placement made.
    pub fn forget_groups(&mut self, from: usize) {
        self.groups.truncate(from.max(self.known_groups));
    }

    /// Changes how far a pod is.
    pub fn set_status(&mut self, snapshot: &Snapshot, task: TaskId, status: Status) {
        let before = self.tasks[task].status;
        if before == status {
            return;
        }
        if snapshot.tasks[task].pod_set.is_some() {
            self.count(snapshot, task, before, -1);
            self.count(snapshot, task, status, 1);
        }
        self.tasks[task].status = status;
    }

    fn count(&mut self, snapshot: &Snapshot, task: TaskId, status: Status, by: isize) {
        let spec = &snapshot.tasks[task];
        let (Some(set), Some(job)) = (spec.pod_set, spec.job) else { return };
        self.pod_sets[set].count(status, by);
        let state = &mut self.jobs[job];
        state.version += 1;
        let shift = |counter: &mut usize| *counter = counter.saturating_add_signed(by);
        match status {
            Status::Pending => shift(&mut state.pending),
            Status::Succeeded => shift(&mut state.succeeded),
            _ => {}
        }
        if status.is_allocated() {
            let asked = snapshot.classes[spec.class].quantities;
            for (sum, amount) in state.allocated.iter_mut().zip(asked) {
                *sum += amount * by as f64;
            }
        }
    }

    /// Puts a pod on a node as its status says, and notes what it counts there.
    pub fn put(&mut self, snapshot: &Snapshot, task: TaskId, node: NodeId) {
        let class = &snapshot.classes[snapshot.tasks[task].class];
        let state = &mut self.tasks[task];
        if state.status.is_used() {
            state.accepted = accepted(&snapshot.dimensions, class, snapshot.nodes[node].gpu_memory);
        }
        let entry = OnNode {
            task,
            status: state.status,
            groups: state.groups.clone(),
            npus: state.npus.clone(),
            claims: state.claims.clone(),
        };
        self.nodes[node].add(snapshot, node, entry);
        self.changes.push(node);
    }

    /// Takes a pod off a node.
    pub fn take(&mut self, snapshot: &Snapshot, task: TaskId, node: NodeId) -> bool {
        self.changes.push(node);
        self.nodes[node].remove(snapshot, node, task)
    }
}

/// Devices that a pod on a node has of its claims.
fn given_claims(snapshot: &Snapshot, task: &Task) -> Option<Arc<[Claimed]>> {
    if task.claims.is_empty() || task.node.is_none() || !task.status.is_used() {
        return None;
    }
    let given = task.claims.iter().filter_map(|it| {
        let given = snapshot.devices.claims[it.claim].given.as_ref()?;
        Some(Claimed { claim: it.claim, devices: given.devices.clone() })
    });
    Some(given.collect())
}

/// What a pod counts against its queue where the snapshot has it.
pub(crate) fn weight(snapshot: &Snapshot, task: &Task) -> Quantities {
    let gpu_memory = match task.node {
        Some(node) => snapshot.nodes[node].gpu_memory,
        None => snapshot.min_gpu_memory.unwrap_or(i64::MAX),
    };
    accepted(&snapshot.dimensions, &snapshot.classes[task.class], gpu_memory)
}

/// What a pod counts on a node, where a device has so much memory.
fn accepted(dimensions: &Dimensions, class: &Class, gpu_memory: i64) -> Quantities {
    if class.gpu.is_shared() {
        let portion = if class.gpu.memory > 0 {
            crate::snapshot::ceil2(class.gpu.memory as f64 / gpu_memory as f64)
        } else {
            class.gpu.portion
        };
        let gpus = (portion * 100.0).round() * class.gpu.count as f64 / 100.0;
        return dimensions.with_gpus(class.quantities, |accelerators| {
            gpus + (accelerators - class.gpu.gpus() - class.gpu.claimed as f64)
        });
    }
    class.quantities
}
