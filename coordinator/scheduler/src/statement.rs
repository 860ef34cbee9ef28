//! A transaction: pods that get a place, are promised one, or lose theirs, all of which can be undone.
//!
//! Each step keeps what it changed. Undoing goes from the last step to the first and puts every number back as it was.

use std::sync::Arc;

use crate::{
    decisions::Cause,
    session::Session,
    snapshot::{Claimed, GroupId, JobId, NodeId, Status, TaskId, Vector},
    state::{OnNode, SharedDevice, TaskState},
};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The pod has the place now.
    Allocate,
    /// The pod gets the place when others have left.
    Pipeline,
    /// The pod loses its place.
    Evict,
    /// The pod keeps the place that an earlier step took from it.
    Spare(usize),
}

/// A node before a step.
#[derive(Clone, Debug)]
struct NodeBefore {
    node: NodeId,
    idle: Vector,
    used: Vector,
    releasing: Vector,
    shared: Vec<SharedDevice>,
    pod: Option<OnNode>,
}

/// A step, and what was before it.
#[derive(Clone, Debug)]
struct Operation {
    step: Step,
    task: TaskId,
    before: TaskState,
    node: NodeBefore,
    groups: usize,
    /// Whether a later step made it void.
    void: bool,
}

/// What a pod gets of a node beside amounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Shared devices; none leaves those that it has.
    pub(crate) groups: Option<Vec<GroupId>>,
    /// Resources per NUMA zone.
    pub(crate) numa: Vec<(usize, usize, f64)>,
    /// NPUs of the node.
    pub(crate) npus: Option<Arc<[u32]>>,
    /// Devices of its claims.
    pub(crate) claims: Option<Arc<[Claimed]>>,
}

/// Changes that are kept or undone together.
#[derive(Debug, Default)]
pub struct Statement {
    operations: Vec<Operation>,
}

// === impl Statement ===

impl Statement {
    /// A point to go back to.
    pub fn checkpoint(&self) -> usize {
        self.operations.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Pods that lose their place for good or move.
    pub fn evicted(&self) -> impl Iterator<Item = TaskId> {
        self.operations
            .iter()
            .filter(|operation| operation.step == Step::Evict && !operation.void)
            .map(|operation| operation.task)
    }
}

// === impl Session ===

impl Session<'_> {
    fn before(&self, task: TaskId, node: NodeId, step: Step) -> Operation {
        let state = &self.state.nodes[node];
        Operation {
            step,
            task,
            before: self.state.tasks[task].clone(),
            node: NodeBefore {
                node,
                idle: state.idle.clone(),
                used: state.used.clone(),
                releasing: state.releasing.clone(),
                shared: state.shared.clone(),
                pod: state.find(task).cloned(),
            },
            groups: self.state.groups.len(),
            void: false,
        }
    }

    /// Gives a pod a place.
    pub(crate) fn allocate(
        &mut self,
        statement: &mut Statement,
        task: TaskId,
        node: NodeId,
        place: Place,
    ) {
        let operation = self.before(task, node, Step::Allocate);
        self.state.set_status(self.snapshot, task, Status::Allocated);
        let state = &mut self.state.tasks[task];
        state.node = Some(node);
        state.numa = place.numa;
        state.npus = place.npus;
        state.claims = place.claims;
        if let Some(groups) = place.groups {
            state.groups = groups;
        }
        self.state.put(self.snapshot, task, node);
        self.state.tasks[task].tentative = true;
        self.tell_allocated(task);
        statement.operations.push(operation);
    }

    /// Promises a pod a place. One that would get back the very place it was evicted from is spared instead, unless
    /// `again` says that it is to be put there anew.
    pub(crate) fn pipeline(
        &mut self,
        statement: &mut Statement,
        task: TaskId,
        node: NodeId,
        place: Place,
        again: bool,
    ) -> bool {
        let there = self.state.nodes[node].find(task);
        let Place { groups, numa, npus, claims } = place;
        let other_devices = match (there, &groups) {
            (Some(there), Some(groups)) => !groups.is_empty() && there.groups != *groups,
            _ => false,
        };
        let other_zones =
            there.is_some() && !numa.is_empty() && self.state.tasks[task].numa != numa;
        let other_claims = there.is_some_and(|there| {
            (claims.is_some() && there.claims != claims) || (npus.is_some() && there.npus != npus)
        });
        let is_there = there.is_some();
        if is_there && !again && !other_devices && !other_zones && !other_claims {
            return self.spare(statement, task, node);
        }
        let operation = self.before(task, node, Step::Pipeline);
        self.state.set_status(self.snapshot, task, Status::Pipelined);
        let state = &mut self.state.tasks[task];
        state.node = Some(node);
        state.numa = numa;
        state.npus = npus;
        state.claims = claims;
        if let Some(groups) = groups {
            state.groups = groups;
        }
        if is_there && other_devices {
            // What it leaves stays accounted for until it has left.
            self.state.nodes[node].pods.retain(|pod| pod.task != task);
        } else if is_there {
            self.state.take(self.snapshot, task, node);
        }
        self.state.put(self.snapshot, task, node);
        self.state.tasks[task].tentative = true;
        self.tell_allocated(task);
        statement.operations.push(operation);
        true
    }

    /// Takes a pod's place.
    pub fn evict(&mut self, statement: &mut Statement, task: TaskId) -> bool {
        let Some(node) = self.state.tasks[task].node else { return false };
        if self.state.nodes[node].find(task).is_none() {
            return false;
        }
        let operation = self.before(task, node, Step::Evict);
        self.state.set_status(self.snapshot, task, Status::Releasing);
        self.state.take(self.snapshot, task, node);
        self.state.put(self.snapshot, task, node);
        self.state.tasks[task].tentative = true;
        self.tell_deallocated(task);
        statement.operations.push(operation);
        true
    }

    /// Gives a pod back what the first eviction of it took, if that was on this node. A pod that an earlier
    /// transaction sent away from a node does not come back to it.
    fn spare(&mut self, statement: &mut Statement, task: TaskId, node: NodeId) -> bool {
        let operations = statement.operations.iter().enumerate();
        let mut evicted = operations.filter(|(_, operation)| {
            operation.task == task && operation.step == Step::Evict && !operation.void
        });
        let Some((at, before)) = evicted
            .next()
            .filter(|(_, operation)| operation.node.node == node)
            .map(|(at, operation)| (at, operation.before.clone()))
        else {
            return false;
        };
        let operation = self.before(task, node, Step::Spare(at));
        self.state.set_status(self.snapshot, task, before.status);
        self.state.tasks[task] = before;
        self.state.take(self.snapshot, task, node);
        self.state.put(self.snapshot, task, node);
        self.tell_allocated(task);
        if let Some(operation) = statement.operations.get_mut(at) {
            operation.void = true;
        }
        statement.operations.push(operation);
        true
    }

    /// Undoes all that was done after a checkpoint.
    pub fn rollback(&mut self, statement: &mut Statement, to: usize) {
        while statement.operations.len() > to {
            let Some(operation) = statement.operations.pop() else { return };
            self.state.forget_groups(operation.groups);
            self.undo(statement, operation);
        }
    }

    fn undo(&mut self, statement: &mut Statement, operation: Operation) {
        let task = operation.task;
        if operation.step != Step::Evict {
            self.tell_deallocated(task);
        }
        self.state.set_status(self.snapshot, task, operation.before.status);
        self.state.tasks[task] = operation.before;
        let before = operation.node;
        let node = &mut self.state.nodes[before.node];
        node.pods.retain(|pod| pod.task != task);
        node.pods.extend(before.pod);
        node.idle = before.idle;
        node.used = before.used;
        node.releasing = before.releasing;
        node.shared = before.shared;
        self.state.touch(before.node);
        match operation.step {
            Step::Evict => self.tell_allocated(task),
            Step::Spare(at) => {
                if let Some(evicted) = statement.operations.get_mut(at) {
                    evicted.void = false;
                }
            }
            Step::Allocate | Step::Pipeline => {}
        }
    }

    /// Undoes all changes of a statement.
    pub fn discard(&mut self, statement: &mut Statement) {
        self.rollback(statement, 0);
    }

    /// Makes promises of all places that the transaction gave to a group.
    pub fn only_promise(&mut self, statement: &mut Statement, job: JobId) {
        let is_ours = |operation: &Operation| {
            self.snapshot.tasks[operation.task].job == Some(job) && operation.step == Step::Allocate
        };
        let Some(first) = statement.operations.iter().position(is_ours) else { return };
        let later = statement.operations.split_off(first);
        let mut places = Vec::new();
        for operation in &later {
            let state = &self.state.tasks[operation.task];
            places.push((
                operation.task,
                operation.node.node,
                state.groups.clone(),
                state.numa.clone(),
                state.npus.clone(),
                state.claims.clone(),
            ));
        }
        for operation in later.into_iter().rev() {
            self.undo(statement, operation);
        }
        for (task, node, groups, numa, npus, claims) in places {
            let shared = self.snapshot.classes[self.snapshot.tasks[task].class].gpu.is_shared();
            let place = Place { groups: shared.then_some(groups), numa, npus, claims };
            self.pipeline(statement, task, node, place, true);
        }
    }

    /// Makes it so.
    pub fn commit(&mut self, statement: Statement, cause: &Cause) {
        for operation in statement.operations.iter().filter(|operation| !operation.void) {
            let task = operation.task;
            match operation.step {
                Step::Allocate => {
                    self.state.set_status(self.snapshot, task, Status::Binding);
                    let annotations = self.bind_annotations(task);
                    self.ledger.bind(self.snapshot, &self.state, task, annotations);
                }
                Step::Pipeline => {
                    let annotations = self.later_bind_annotations(task);
                    self.ledger.pipeline(self.snapshot, &self.state, task, annotations);
                }
                Step::Evict => {
                    let moved = self.state.tasks[task].status == Status::Pipelined;
                    let lawful = self.why_lawful(task, cause);
                    self.ledger.evict(
                        self.snapshot,
                        operation.node.node,
                        &operation.before,
                        task,
                        cause,
                        lawful,
                        moved,
                    );
                    self.state.tasks[task].tentative = false;
                    if let Some(job) = self.snapshot.tasks[task].job {
                        self.state.jobs[job].last_eviction = Some(self.snapshot.now);
                    }
                }
                Step::Spare(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        config::Config,
        framework::{NodeSet, Registry},
        input::{Limits, load},
        snapshot::{Id, QueueId, build},
        state::{Gang, NodeState, State},
    };

    /// A node with a whole device taken, one shared by two, one shared by one; and groups that wait.
    fn cluster() -> Value {
        let pod = |name: &str, group: &str, marks: Value, gpus: &str, node: &str, device: &str| {
            let mut annotations = marks;
            annotations["pod-group-name"] = json!(group);
            json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations,
                    "labels": {"runai-gpu-group": device}},
                "spec": {"nodeName": node, "schedulerName": "kai-scheduler",
                    "containers": [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": gpus}}}]},
                "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
        };
        let part = |size: &str| json!({"gpu-fraction": size});
        let node = |name: &str| {
            json!({"metadata": {"name": name, "labels": {"nvidia.com/gpu.memory": "80000"}},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "50", "nvidia.com/gpu": "4"}}})
        };
        let group = |name: &str| json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": "q"}});
        let groups = ["whole", "x", "y", "z", "new", "more"].map(group);
        json!({"now": "2026-01-01T00:00:00Z", "nodes": [node("a"), node("b")],
            "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {
                "gpu": {"quota": 8, "limit": -1, "overQuotaWeight": 1},
                "cpu": {"quota": -1, "limit": -1}, "memory": {"quota": -1, "limit": -1}}}}],
            "podGroups": groups,
            "pods": [pod("whole", "whole", json!({}), "1", "a", "w"), pod("x", "x", part("0.5"), "0", "a", "d0"),
                pod("y", "y", part("0.25"), "0", "a", "d0"), pod("z", "z", part("0.3"), "0", "a", "d1"),
                pod("new", "new", part("0.7"), "0", "", ""), pod("more", "more", json!({}), "2", "", "")]})
    }

    type Numbers = (Vector, Vector, Vector, Vec<SharedDevice>, Vec<String>);

    fn numbers(state: &State) -> Vec<Numbers> {
        let pods = |node: &NodeState| {
            let mut pods: Vec<String> = node.pods.iter().map(|pod| format!("{pod:?}")).collect();
            pods.sort();
            pods
        };
        let of = |node: &NodeState| {
            (
                node.idle.clone(),
                node.used.clone(),
                node.releasing.clone(),
                node.shared.clone(),
                pods(node),
            )
        };
        state.nodes.iter().map(of).collect()
    }

    #[test]
    fn what_is_undone_leaves_no_trace() {
        let document = load(cluster().to_string().as_bytes(), Limits::default()).unwrap();
        let config = Config::of_document(&document, &[]).unwrap();
        let snapshot = build(&document.input, &config.params, document.input.now.unwrap());
        let mut session = Session::open(&snapshot, &config, &Registry::default());
        let queue = QueueId::of(0);
        let (before, tasks, share) = (
            numbers(&session.state),
            format!("{:?}", session.state.tasks),
            session.queue_allocated(queue),
        );
        // All who run lose their place, in every order of two; then everybody is placed anew.
        let running: Vec<TaskId> = snapshot
            .tasks
            .ids()
            .filter(|task| snapshot.tasks[*task].status == Status::Running)
            .collect();
        assert_eq!(running.len(), 4);
        for first in &running {
            for second in &running {
                let mut statement = Statement::default();
                session.evict(&mut statement, *first);
                if second != first {
                    session.evict(&mut statement, *second);
                }
                let checkpoint = statement.checkpoint();
                for job in snapshot.jobs.ids() {
                    session.allocate_gang(&mut statement, &NodeSet::All, &Gang::whole(job), true);
                }
                assert!(statement.checkpoint() > checkpoint);
                session.rollback(&mut statement, checkpoint);
                for job in snapshot.jobs.ids().rev() {
                    session.allocate_gang(&mut statement, &NodeSet::All, &Gang::whole(job), false);
                }
                session.discard(&mut statement);
                assert_eq!(numbers(&session.state), before);
                assert_eq!(format!("{:?}", session.state.tasks), tasks);
                let [cpu, memory, gpu, ..] = session.queue_allocated(queue).unwrap();
                let [cpu_before, memory_before, gpu_before, ..] = share.unwrap();
                assert_eq!((cpu, memory), (cpu_before, memory_before));
                assert!((gpu - gpu_before).abs() < 1e-9);
            }
        }
    }
}
