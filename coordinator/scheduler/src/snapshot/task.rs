//! A pod as the scheduler sees it.

use std::{cmp::Ordering, sync::Arc};

use jiff::Timestamp;

use super::{ClassId, GroupId, JobId, NodeId, PodSetId, TaskClaim};

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Waits for a place.
    Pending,
    /// Waits for a gate to open.
    Gated,
    /// Has a place in this cycle.
    Allocated,
    /// Has a place as soon as others leave it.
    Pipelined,
    /// Its bind request is on its way.
    Binding,
    /// Has a node, does not run yet.
    Bound,
    /// The pod runs.
    Running,
    /// Is being deleted.
    Releasing,
    /// The pod has succeeded.
    Succeeded,
    /// The pod has failed.
    Failed,
    /// The pod's phase is unknown.
    Unknown,
    /// Is being deleted for too long.
    StuckInReleasing,
}

// === impl Status ===

impl Status {
    /// Occupies a node.
    pub fn is_used(self) -> bool {
        self.is_active() || matches!(self, Self::Releasing | Self::StuckInReleasing)
    }

    /// Has, or is about to have, a place that it keeps.
    pub fn is_active(self) -> bool {
        self.is_allocated() || self == Self::Pipelined
    }

    /// Has a place that counts against its queue.
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Allocated | Self::Binding | Self::Bound | Self::Running)
    }

    /// Can run, or does.
    pub fn is_alive(self) -> bool {
        self.is_active() || matches!(self, Self::Pending | Self::Gated)
    }

    /// As it is written in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Gated => "Gated",
            Self::Allocated => "Allocated",
            Self::Pipelined => "Pipelined",
            Self::Binding => "Binding",
            Self::Bound => "Bound",
            Self::Running => "Running",
            Self::Releasing => "Releasing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::StuckInReleasing => "StuckInReleasing",
        }
    }
}

/// `namespace/name`, as one text: a cycle names every pod several times.
#[derive(Clone, Debug)]
pub struct PodKey {
    text: Box<str>,
    slash: u32,
}

/// A pod as the engine sees it.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its namespace and name.
    pub key: PodKey,
    /// The pod's `metadata.uid`.
    pub uid: Box<str>,
    /// What it asks for; pods alike share it.
    pub class: ClassId,
    /// The group that the pod belongs to.
    pub job: Option<JobId>,
    /// Its leaf of the group's tree; none if it names one that does not exist.
    pub pod_set: Option<PodSetId>,
    /// How far it is.
    pub status: Status,
    /// The node that the pod is bound to.
    pub node: Option<NodeId>,
    /// The shared devices it has.
    pub groups: Vec<GroupId>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether its eviction is ordered and not confirmed: its queue has it until then.
    pub eviction_ordered: bool,
    /// Whether another scheduler placed it.
    pub foreign: bool,
    /// Whether it only holds a device for others to share.
    pub reservation: bool,
    /// Whether it is one of the scheduler's own tools.
    pub utility: bool,
    /// `training.kubeflow.org/job-role` says that it leads.
    pub leads: bool,
    /// `ray.io/node-type` says that it is the head.
    pub head: bool,
    /// `kai.scheduler/task-priority`: a number, or a text that is none.
    pub task_priority: Option<Result<i64, ()>>,
    /// The node that somebody thinks it should have.
    pub nominated: Option<NodeId>,
    /// Resources of it per NUMA zone, as its marks say.
    pub numa: Vec<(usize, usize, f64)>,
    /// NPUs of its node that it has, as its annotations say.
    pub npus: Option<Arc<[u32]>>,
    /// Its claims of devices.
    pub claims: Vec<TaskClaim>,
}

// === impl PodKey ===

impl PodKey {
    /// Of both names.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Self { text: text.into_boxed_str(), slash: namespace.len() as u32 }
    }

    /// The pod, as `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Namespace of the pod.
    pub fn namespace(&self) -> &str {
        self.text.get(..self.slash as usize).unwrap_or_default()
    }

    /// Name of the pod.
    pub fn name(&self) -> &str {
        self.text.get(self.slash as usize + 1..).unwrap_or_default()
    }
}

// === impl Task ===

impl Task {
    /// Earlier first, then by uid: what decides when nothing else does.
    pub fn by_age(&self, other: &Self) -> Ordering {
        self.created.cmp(&other.created).then_with(|| self.uid.cmp(&other.uid))
    }
}
