//! Plugins and where they are asked.
//!
//! A plugin implements [`Plugin`] and names the [`Point`]s at which it wants to be asked. How the answers of several
//! plugins become one is the session's business ([`crate::session`]), and always the same:
//!
//! | points | rule |
//! |---|---|
//! | orders | the first answer that is not "equal"; then age, then name |
//! | predicates, pre-predicates, victim filters, scenario validators | all must agree |
//! | node order, GPU order | scores add up; no score drops the node or device |
//! | subset nodes | each plugin divides what the one before it made |
//! | can-reclaim, capacity checks, queue resources | the first plugin that has the point |
//! | bind request | all are asked, the last one wins |
//! | events, life cycle | all are told, in order |
//!
//! **What an answer depends on.** A predicate and a node order say with a [`Scope`] what they look at. The session
//! remembers an answer for as long as nothing of that has changed; one that looks at everything is asked every time.

mod points;
mod registry;
mod scenario;

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc, sync::Arc};

use crate::{
    config::Config,
    reason::{NodeRefusal, Refusal},
    snapshot::{
        Claimed, ClassId, GroupId, JobId, NodeId, PodSetId, Quantities, QueueId, Snapshot, TaskId,
    },
    state::{Gang, State},
};

pub use self::{
    points::Point,
    registry::{Build, Registry},
    scenario::{Scenario, Victim},
};

/// What a plugin can see.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The cluster as it was.
    pub snapshot: &'a Snapshot,
    /// What this cycle has changed.
    pub state: &'a State,
    /// How the scheduler is set up.
    pub config: &'a Config,
}

/// What an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The pod's class and the node as it was.
    Static,
    /// The pod's class and the node as it is.
    Node,
    /// Anything: ask every time.
    Session,
}

/// Nodes to choose from.
#[derive(Clone, Debug)]
pub enum NodeSet {
    /// All of the cluster.
    All,
    /// These, by name.
    Some(Rc<[NodeId]>),
}

/// A queue in a comparison.
#[derive(Clone, Copy, Debug)]
pub struct QueueSide {
    /// The queue whose side it is.
    pub queue: QueueId,
    /// What the job that it would place next asks for.
    pub request: Quantities,
    /// What the jobs that it would lose have.
    pub victims: Quantities,
}

/// A part of a group in a comparison.
#[derive(Clone, Copy, Debug)]
pub struct PartSide<'a> {
    /// Name of the subgroup.
    pub name: &'a str,
    /// Whether it holds pods.
    pub is_pod_set: bool,
    /// Pods with a place, or parts that have what they need.
    pub active: usize,
    /// How many it needs.
    pub min: usize,
}

/// Devices that a pod's claims get on a node.
#[derive(Clone, Debug)]
pub struct DevicePlacement {
    /// The devices that each claim gets.
    pub claims: Arc<[Claimed]>,
    /// Whether some of them are free only when other pods have left.
    pub later: bool,
}

/// NPUs that a pod gets of a node.
#[derive(Clone, Debug)]
pub struct NpuPlacement {
    /// Numbers of the NPUs on their node.
    pub devices: Arc<[u32]>,
    /// Whether some of them are free only when other pods have left.
    pub later: bool,
}

/// Pods for which nodes are divided.
pub struct Subset<'a> {
    /// The group that the pods belong to.
    pub gang: &'a Gang,
    /// The part of its tree.
    pub member: usize,
    /// Leaves of it that have pods to place.
    pub pod_sets: &'a [PodSetId],
    /// The pods that are placed together.
    pub tasks: &'a [TaskId],
}

/// Decides where pods go, in which order and at whose cost. Every method but the name has an answer that changes
/// nothing.
#[expect(unused_variables, reason = "answers that change nothing look at nothing")]
pub trait Plugin {
    /// The name in a configuration.
    fn name(&self) -> &'static str;

    /// Where it is asked.
    fn points(&self) -> &'static [Point];

    /// A cycle begins.
    fn open(&mut self, view: View<'_>) {}

    /// A cycle ends.
    fn close(&mut self, view: View<'_>) {}

    /// Which of two groups of a queue is first.
    fn job_order(&self, view: View<'_>, left: &Gang, right: &Gang) -> Ordering {
        Ordering::Equal
    }

    /// Which of two pods of a leaf is first. Asked once per cycle: the order of a leaf's pods does not change in it.
    fn task_order(&self, view: View<'_>, left: TaskId, right: TaskId) -> Ordering {
        Ordering::Equal
    }

    /// Which of two parts that hold pods is first.
    fn pod_set_order(&self, view: View<'_>, left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
        Ordering::Equal
    }

    /// Which of two parts is first, where one of them holds parts.
    fn sub_group_order(&self, view: View<'_>, left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
        Ordering::Equal
    }

    /// Which of two queues is first.
    fn queue_order(&self, view: View<'_>, left: QueueSide, right: QueueSide) -> Ordering {
        Ordering::Equal
    }

    /// A group is about to be placed.
    fn pre_job_allocation(&mut self, view: View<'_>, gang: &Gang) {}

    /// Divides nodes into sets that are tried one after the other.
    fn subset_nodes(
        &mut self,
        view: View<'_>,
        subset: &Subset<'_>,
        nodes: &NodeSet,
    ) -> Result<Vec<NodeSet>, Refusal> {
        Ok(vec![nodes.clone()])
    }

    /// Whether a pod can be placed at all.
    fn pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether a pod could be placed if everybody else left.
    fn victim_invariant_pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether a node can take a pod, come what may: what depends on the pod's class and the node as it was. Asked once
    /// per class and node.
    fn fixed_predicate(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<(), NodeRefusal> {
        Ok(())
    }

    /// Whether a node takes a pod now.
    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        Ok(())
    }

    /// What that answer depends on, for pods of a class.
    fn predicate_scope(&self, view: View<'_>, class: ClassId) -> Scope {
        Scope::Session
    }

    /// Nodes are about to be scored for a pod.
    fn node_pre_order(&mut self, view: View<'_>, task: TaskId, nodes: &NodeSet) {}

    /// How good a node is for a pod; none drops the node.
    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        Some(0.0)
    }

    /// What that score depends on.
    fn node_order_scope(&self, view: View<'_>, task: TaskId) -> Scope {
        Scope::Session
    }

    /// How good a shared device of a node is for a pod; `None` as the group is a whole device that nobody uses.
    fn gpu_order(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        group: Option<GroupId>,
    ) -> Option<f64> {
        Some(0.0)
    }

    /// Whether a group may take from other queues.
    fn can_reclaim(&self, view: View<'_>, gang: &Gang, request: Quantities) -> bool {
        true
    }

    /// Whether a group of another queue may lose pods for one that waits.
    fn reclaim_victim(
        &self,
        view: View<'_>,
        pending: &Gang,
        request: Quantities,
        victim: JobId,
    ) -> bool {
        true
    }

    /// Whether that answer is the same for all groups of the victim's queue.
    fn reclaim_victim_is_by_queue(&self) -> bool {
        false
    }

    /// Whether a group of the same queue may.
    fn preempt_victim(&self, view: View<'_>, pending: &Gang, victim: JobId) -> bool {
        true
    }

    /// Whether a way to reclaim that works is lawful.
    fn reclaim_scenario(&self, view: View<'_>, scenario: &Scenario<'_>) -> bool {
        true
    }

    /// Whether a way to preempt that works is lawful.
    fn preempt_scenario(&self, view: View<'_>, scenario: &Scenario<'_>) -> bool {
        true
    }

    /// The search for victims of one group begins.
    fn job_solution_start(&mut self, view: View<'_>) {}

    /// Whether a queue has room for pods by its limit and quota.
    fn job_over_capacity(
        &self,
        view: View<'_>,
        gang: &Gang,
        tasks: &[TaskId],
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether pods that nobody can preempt stay within their queue's quota.
    fn non_preemptible_over_quota(
        &self,
        view: View<'_>,
        gang: &Gang,
        tasks: &[TaskId],
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The same as [`Plugin::job_over_capacity`] for one pod on one node.
    fn task_over_capacity(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<(), NodeRefusal> {
        Ok(())
    }

    /// Annotations of the bind request of a pod.
    fn bind_request(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
    }

    /// Annotations of the bind request of a pod that was promised its place, and is bound in a later cycle: those that hold then.
    fn later_bind_request(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
    }

    /// Which zones of a node a pod gets.
    fn numa_placement(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Vec<(usize, usize, f64)> {
        Vec::new()
    }

    /// Which NPUs of a node a pod gets; none if that is left to the node.
    fn npu_placement(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<NpuPlacement> {
        None
    }

    /// Which devices of a node a pod's claims get; none if they cannot be met there.
    fn device_placement(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Option<DevicePlacement> {
        None
    }

    /// A pod got a place.
    fn allocated(&mut self, view: View<'_>, task: TaskId) {}

    /// A pod lost its place.
    fn deallocated(&mut self, view: View<'_>, task: TaskId) {}

    /// What a queue has.
    fn queue_allocated(&self, queue: QueueId) -> Option<Quantities> {
        None
    }

    /// What is a queue's own.
    fn queue_deserved(&self, queue: QueueId) -> Option<Quantities> {
        None
    }

    /// A queue's fair share.
    fn queue_fair_share(&self, queue: QueueId) -> Option<Quantities> {
        None
    }

    /// The way in which victims are searched, for plugins that are one.
    fn generator(&self) -> Option<Generator> {
        None
    }
}

/// A way to search for victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generator {
    /// Victims of one node.
    NodeLocalGreedy,
    /// Victims of several nodes.
    MultiNodeGang,
}
