//! Names of actions and plugins, and which of them run if nothing is said.

use super::PluginOption;

/// Names of plugins.
pub mod plugin {
    /// Whether a pod can run on a node at all.
    pub const PREDICATES: &str = "predicates";
    /// Fair share, quotas, limits and the order of queues.
    pub const PROPORTION: &str = "proportion";
    /// More important jobs first.
    pub const PRIORITY: &str = "priority";
    /// Nodes that have room now first.
    pub const NODE_AVAILABILITY: &str = "nodeavailability";
    /// Jobs without accelerators away from nodes that have some.
    pub const RESOURCE_TYPE: &str = "resourcetype";
    /// Pods near pods, or away from them.
    pub const POD_AFFINITY: &str = "podaffinity";
    /// Jobs below their minimum first.
    pub const ELASTIC: &str = "elastic";
    /// Masters and launchers first.
    pub const KUBEFLOW: &str = "kubeflow";
    /// Places the head of a Ray cluster before its workers.
    pub const RAY: &str = "ray";
    /// The order of parts of a job.
    pub const SUBGROUP_ORDER: &str = "subgrouporder";
    /// The order of pods in a part.
    pub const TASK_ORDER: &str = "taskorder";
    /// The node that somebody named for a pod first.
    pub const NOMINATED_NODE: &str = "nominatednode";
    /// Claims of devices.
    pub const DYNAMIC_RESOURCES: &str = "dynamicresources";
    /// Nobody is evicted before it has run for a while.
    pub const MIN_RUNTIME: &str = "minruntime";
    /// Pods of a job in one domain.
    pub const TOPOLOGY: &str = "topology";
    /// Hands out snapshots.
    pub const SNAPSHOT: &str = "snapshot";
    /// Victims of one node.
    pub const NODE_LOCAL_GREEDY: &str = "sg-nodelocalgreedy";
    /// Victims of several nodes.
    pub const MULTI_NODE_GANG: &str = "sg-multinodegang";
    /// Shared devices that are full first.
    pub const GPU_PACK: &str = "gpupack";
    /// Shared devices that are empty first.
    pub const GPU_SPREAD: &str = "gpuspread";
    /// Full nodes first, or empty ones.
    pub const NODE_PLACEMENT: &str = "nodeplacement";
    /// Nodes that share a device already first.
    pub const GPU_SHARING_ORDER: &str = "gpusharingorder";
    /// Zones of a node.
    pub const NUMA: &str = "numa";
    /// Shows the order of jobs.
    pub const REFLECT_JOB_ORDER: &str = "reflectjoborder";
    /// Rings and super-pods of Ascend devices.
    pub const ASCEND: &str = "ascend";
    /// Names of plugins that look for victims begin so.
    pub const GENERATOR_PREFIX: &str = "sg-";
}

use plugin::*;

/// Every plugin that is built in.
pub const PLUGINS: [&str; 25] = [
    PREDICATES,
    PROPORTION,
    PRIORITY,
    NODE_AVAILABILITY,
    RESOURCE_TYPE,
    POD_AFFINITY,
    ELASTIC,
    KUBEFLOW,
    RAY,
    SUBGROUP_ORDER,
    TASK_ORDER,
    NOMINATED_NODE,
    DYNAMIC_RESOURCES,
    MIN_RUNTIME,
    TOPOLOGY,
    SNAPSHOT,
    NODE_LOCAL_GREEDY,
    MULTI_NODE_GANG,
    GPU_PACK,
    GPU_SPREAD,
    NODE_PLACEMENT,
    GPU_SHARING_ORDER,
    NUMA,
    REFLECT_JOB_ORDER,
    ASCEND,
];

/// The plugins that run if nothing is said, in order.
const DEFAULT: [&str; 20] = [
    PREDICATES,
    PROPORTION,
    PRIORITY,
    ELASTIC,
    KUBEFLOW,
    RAY,
    NODE_AVAILABILITY,
    GPU_SHARING_ORDER,
    GPU_PACK,
    RESOURCE_TYPE,
    SUBGROUP_ORDER,
    TASK_ORDER,
    NOMINATED_NODE,
    DYNAMIC_RESOURCES,
    NODE_PLACEMENT,
    MIN_RUNTIME,
    TOPOLOGY,
    SNAPSHOT,
    NODE_LOCAL_GREEDY,
    MULTI_NODE_GANG,
];

/// Something that a cycle does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionName {
    /// Places what fits.
    Allocate,
    /// Moves pods together so that something fits.
    Consolidation,
    /// Takes back what other queues have above their share.
    Reclaim,
    /// Takes what less important jobs of the queue have.
    Preempt,
    /// Evicts jobs that have run with too few pods for too long.
    StaleGangEviction,
}

// === impl ActionName ===

impl ActionName {
    /// All of them, in the order in which they run if nothing is said.
    pub const ALL: [Self; 5] = [
        Self::Allocate,
        Self::Consolidation,
        Self::Reclaim,
        Self::Preempt,
        Self::StaleGangEviction,
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Consolidation => "consolidation",
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::StaleGangEviction => "stalegangeviction",
        }
    }

    /// The action of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// The plugins that run if nothing is said.
pub(super) fn default_plugins() -> Vec<PluginOption> {
    let told = |name: &str| match name {
        NODE_PLACEMENT => PluginOption::new(name).with("cpu", "binpack").with("gpu", "binpack"),
        _ => PluginOption::new(name),
    };
    DEFAULT.map(told).into()
}

/// A list of plugins from before victims were searched by plugins names none that does: it gets both.
pub(super) fn add_generators(plugins: &mut Vec<PluginOption>) {
    if !plugins.iter().any(|plugin| plugin.name.starts_with(GENERATOR_PREFIX)) {
        plugins.extend([NODE_LOCAL_GREEDY, MULTI_NODE_GANG].map(PluginOption::new));
    }
}
