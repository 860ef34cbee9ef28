//! Every name that others rely on: labels, annotations, field managers.

pub use muster_runtime::names::{FIELD_MANAGER, LEADER_ADDRESS, LEADER_EPOCH, LEASE};

pub use muster_kube::rank_group::{
    RANK_GROUP, RANK_GROUP_SIZE, RANKTABLE_CONTAINERS, RANKTABLE_DELIVERY, RANKTABLE_ORDER,
    RANKTABLE_TEMPLATE, RANKTABLE_TIMEOUT,
};
pub use muster_ranktable::names::{RANKTABLE_FILE, VOLUME, WAITER, record};

/// Annotation of LeaderWorkerSet's pods that says the same.
pub const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";

/// Label of a ModelServing's pods: their role.
pub const SERVING_ROLE: &str = muster_modelserving::naming::ROLE;

/// Annotation of pods that read a ConfigMap volume: the generation. Its change makes the kubelet look at once.
pub const RANKTABLE_GENERATION: &str = "muster.dev/ranktable-generation";

/// Label of the ConfigMaps that are records of tables; its value is `true`.
pub const RECORD: &str = "muster.dev/ranktable-record";

/// Name of the Service that agents, trainers and the API server call.
pub const SERVICE: &str = "muster-coordinator";
