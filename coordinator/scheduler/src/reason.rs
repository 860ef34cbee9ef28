//! Why: the one reason that keeps a group waiting, with the numbers behind it, and why an eviction was lawful.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::snapshot::Dimensions;

/// What keeps a group waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// The queue that it names does not exist, or a queue above it.
    QueueDoesNotExist,
    /// The queue that it names has queues below it, and only queues without any take groups.
    QueueIsNotALeaf,
    /// It has fewer pods than it needs.
    NotEnoughPods,
    /// Its subgroups ask for what cannot be: more parts than there are.
    ImpossibleSubGroups,
    /// A pod of it names a subgroup that does not exist.
    UnknownSubGroup,
    /// A queue would go above its limit.
    OverLimit,
    /// Pods that nobody can preempt would go above a queue's quota.
    NonPreemptibleOverQuota,
    /// A pod asks for more than any node has.
    LargerThanAnyNode,
    /// A config map that a pod needs does not exist.
    MissingConfigMap,
    /// A volume that a pod claims cannot be had.
    MissingVolume,
    /// A claim of devices that a pod names cannot be met.
    MissingDeviceClaim,
    /// The topology, or the level of it, that it names does not exist.
    UnknownTopology,
    /// No domain of the topology has room for all of it.
    NoDomainHasRoom,
    /// No node, or too few, have room for its pods.
    NoRoom,
    /// No node that its pods allow takes them: taints, selectors, affinities, ports, state.
    NoNodeAllows,
    /// It may not evict others yet, and there is no room without.
    PreemptionDelayNotElapsed,
    /// The scheduler failed while it decided on it; it is left out for a while.
    DecisionFailed,
    /// A plugin says no.
    Other,
}

/// Why a node does not take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRefusal {
    /// Too little of a dimension.
    Insufficient(u16),
    /// The node takes no pods now.
    NodeState(&'static str),
    /// A taint that the pod does not bear.
    Taint,
    /// Not what the pod's selector or affinity asks of nodes.
    NodeAffinity,
    /// Pods that should be near are not, or others are that should not.
    PodAffinity,
    /// A port of the node is taken.
    Ports,
    /// A volume cannot be reached, or has no room.
    Volume,
    /// The node's devices are cut, or are not, as the pod asks.
    DeviceKind,
    /// The pod asks for memory of devices, and the node does not say how much they have.
    GpuMemoryUnknown,
    /// No pod slot is left.
    PodSlots,
    /// The queue's limit or quota.
    OverCapacity,
    /// The node is not marked for such pods.
    WorkerLabel,
    /// Too few devices that a claim asks for.
    DeviceClaim {
        /// How many it asks for.
        asked: u16,
        /// How many the node has that match.
        matching: u16,
        /// How many of those nobody has.
        free: u16,
    },
    /// A claim has its devices already, and they cannot be used there.
    ClaimElsewhere,
    /// A selector of devices has no answer for a device.
    DeviceSelector,
    /// A claim asks for all devices, and the node's are not all known.
    DevicePool,
    /// No ring of NPUs is enough.
    Ring,
    /// No zone of the node is enough.
    Numa,
    /// A plugin dropped it.
    Dropped,
    /// What a plugin of a user's own says.
    Custom(&'static str),
}

/// Why something is refused before any node is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The kind of reason.
    pub reason: Reason,
    /// The reason as a sentence.
    pub message: String,
}

/// What keeps a group waiting, with numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The dominant reason.
    pub reason: Reason,
    /// For people: what is missing, how much, and what would help.
    pub message: String,
    /// Pods of it that have no place.
    pub pods: usize,
    /// Pods of the last attempt that found a place before one did not.
    pub placed: usize,
    /// Pods that the attempt had to place.
    pub needed: usize,
    /// How many nodes refuse the pod that failed, by why.
    pub nodes: BTreeMap<String, u32>,
}

/// Why a pod was evicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// The action that evicts.
    pub action: &'static str,
    /// The group that gets the room; none if the pod's own group is stale.
    pub beneficiary: Option<String>,
    /// Why it was lawful.
    pub lawful: String,
    /// What it freed: CPU, memory, accelerators.
    pub freed: [f64; 3],
    /// Whether the pod has another place.
    pub moved: bool,
}

// === impl Refusal ===

impl Refusal {
    /// A refusal for this reason.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

// === impl NodeRefusal ===

impl NodeRefusal {
    /// The refusal as a sentence.
    pub fn text(self, dimensions: &Dimensions) -> String {
        match self {
            Self::Insufficient(dimension) => {
                format!("insufficient {}", dimensions.name(dimension as usize))
            }
            Self::NodeState(why) => format!("node is {why}"),
            Self::Taint => "taint not tolerated".to_owned(),
            Self::NodeAffinity => "node selector or affinity".to_owned(),
            Self::PodAffinity => "pod affinity".to_owned(),
            Self::Ports => "host port taken".to_owned(),
            Self::Volume => "volume".to_owned(),
            Self::DeviceKind => "kind of device".to_owned(),
            Self::GpuMemoryUnknown => "device memory unknown".to_owned(),
            Self::PodSlots => "no pod slot".to_owned(),
            Self::OverCapacity => "queue over capacity".to_owned(),
            Self::WorkerLabel => "worker label".to_owned(),
            Self::DeviceClaim { asked, matching, free } if free >= asked => {
                format!(
                    "device claim ({asked} asked for, {free} of {matching} that match are free, none are right together)"
                )
            }
            Self::DeviceClaim { asked, matching, free } => {
                format!(
                    "device claim ({asked} asked for, {free} of {matching} that match are free)"
                )
            }
            Self::ClaimElsewhere => "device claim has its devices elsewhere".to_owned(),
            Self::DeviceSelector => {
                "device selector without an answer (guard it with has() or `in`)".to_owned()
            }
            Self::DevicePool => "device pool not told in full yet".to_owned(),
            Self::Ring => "no ring of NPUs has room (1, 2 or 4 of one ring, or all)".to_owned(),
            Self::Numa => "numa alignment".to_owned(),
            Self::Dropped => "outside of the topology".to_owned(),
            Self::Custom(why) => why.to_owned(),
        }
    }

    /// Whether more room would help.
    pub fn is_room(self) -> bool {
        match self {
            Self::DeviceClaim { asked, matching, .. } => matching >= asked,
            _ => matches!(self, Self::Insufficient(_) | Self::PodSlots | Self::Numa | Self::Ring),
        }
    }
}
