//! A transaction: pods that get a place, are promised one, or lose theirs, all of which can be undone.
//!
//! Each step keeps what it changed. Undoing goes from the last step to the first and puts every number back as it was.

use crate::{
    decisions::Cause,
    session::Session,
    snapshot::{GroupId, JobId, NodeId, Status, TaskId, Vector},
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

/// A transaction.
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
        groups: Option<Vec<GroupId>>,
        numa: Vec<(usize, usize, f64)>,
    ) {
        let operation = self.before(task, node, Step::Allocate);
        self.state.set_status(self.snapshot, task, Status::Allocated);
        let state = &mut self.state.tasks[task];
        state.node = Some(node);
        state.numa = numa;
        if let Some(groups) = groups {
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
        groups: Option<Vec<GroupId>>,
        numa: Vec<(usize, usize, f64)>,
        again: bool,
    ) -> bool {
        let there = self.state.nodes[node].find(task);
        let other_devices = match (there, &groups) {
            (Some(there), Some(groups)) => !groups.is_empty() && there.groups != *groups,
            _ => false,
        };
        let other_zones =
            there.is_some() && !numa.is_empty() && self.state.tasks[task].numa != numa;
        let is_there = there.is_some();
        if is_there && !again && !other_devices && !other_zones {
            return self.spare(statement, task, node);
        }
        let operation = self.before(task, node, Step::Pipeline);
        self.state.set_status(self.snapshot, task, Status::Pipelined);
        let state = &mut self.state.tasks[task];
        state.node = Some(node);
        state.numa = numa;
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

    /// Undoes everything.
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
            ));
        }
        for operation in later.into_iter().rev() {
            self.undo(statement, operation);
        }
        for (task, node, groups, numa) in places {
            let shared = self.snapshot.classes[self.snapshot.tasks[task].class].gpu.is_shared();
            self.pipeline(statement, task, node, shared.then_some(groups), numa, true);
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
                Step::Pipeline => self.ledger.pipeline(self.snapshot, &self.state, task),
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
