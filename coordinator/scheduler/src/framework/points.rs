//! Where plugins are asked.

/// Where a plugin is asked. Each is a method of [`crate::framework::Plugin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Which group of a queue is first.
    JobOrder,
    /// Which pod is first.
    TaskOrder,
    /// Which leaf is first.
    PodSetOrder,
    /// Which inner part is first.
    SubGroupSetOrder,
    /// Which queue is first.
    QueueOrder,
    /// A group is about to be placed.
    PreJobAllocation,
    /// Divides the nodes into sets that are tried one after the other.
    SubsetNodes,
    /// Whether a pod can be placed at all.
    PrePredicate,
    /// Whether it could if everybody left.
    VictimInvariantPrePredicate,
    /// Whether a node takes a pod.
    Predicate,
    /// Nodes are about to be scored.
    NodePreOrder,
    /// How good a node is.
    NodeOrder,
    /// How good a device is.
    GpuOrder,
    /// Whether a group may reclaim.
    CanReclaim,
    /// Who may lose pods to another queue.
    ReclaimVictimFilter,
    /// Who may lose pods to its own queue.
    PreemptVictimFilter,
    /// Whether a way to reclaim is lawful.
    ReclaimScenarioValidator,
    /// Whether a way to preempt is lawful.
    PreemptScenarioValidator,
    /// The search for victims begins.
    JobSolutionStart,
    /// Limit and quota of a group.
    JobOverCapacity,
    /// Quota of pods that nobody can preempt.
    NonPreemptibleOverQuota,
    /// Limit and quota of a pod on a node.
    TaskOverCapacity,
    /// Annotations of bind requests.
    BindRequestMutate,
    /// Zones of a node.
    NumaPlacement,
    /// Devices of a node that are claimed one by one.
    DevicePlacement,
    /// NPUs of a node.
    NpuPlacement,
    /// Places got and lost.
    Event,
    /// What a queue has, owns and deserves.
    QueueResources,
    /// A way to search for victims.
    ScenarioGenerator,
}

impl Point {
    /// How many there are.
    pub const COUNT: usize = Self::ScenarioGenerator as usize + 1;
}
