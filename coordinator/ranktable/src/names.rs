//! Names that pods carry: what marks a pod of a group, what injection gives it, and the labels and annotations by which
//! the known workloads place it in its group.

/// The label that puts a pod into a rank group.
pub const RANK_GROUP: &str = "muster.dev/rank-group";

/// Annotation of such pods: the ConfigMap of the template. The second name is the seed's.
pub const RANKTABLE_TEMPLATE: [&str; 2] =
    ["muster.dev/ranktable-template", "kthena.io/ranktable-template"];

/// Annotation of such pods: `agent` or `configmap`.
pub const RANKTABLE_DELIVERY: &str = "muster.dev/ranktable-delivery";

/// Annotation of such pods: the containers that see the table, `a,b`. Without it, all.
pub const RANKTABLE_CONTAINERS: &str = "muster.dev/ranktable-containers";

/// Annotation that injection leaves on a pod: the file that it waits for.
pub const RANKTABLE_FILE: &str = "muster.dev/ranktable-file";

/// Name of the volume that holds the table.
pub const VOLUME: &str = "ranktable";

/// Name of the init container that waits for the table.
pub const WAITER: &str = "wait-ranktable";

/// Name of the ConfigMap that records a group's table.
pub fn record(group: &str) -> String {
    format!("{group}-ranktable")
}

/// The role.
pub(crate) const ROLE: [&str; 3] = [
    "modelserving.volcano.sh/role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
];

/// The instance of the role.
pub(crate) const ROLE_ID: &str = "modelserving.volcano.sh/role-id";

/// The number of the instance, where it is not part of its name.
pub(crate) const ROLE_INDEX: [&str; 2] =
    ["jobset.sigs.k8s.io/job-index", "leaderworkerset.sigs.k8s.io/group-index"];

/// Marks the pod that the others ask first.
pub(crate) const ENTRY: &str = "modelserving.volcano.sh/entry";

/// The number of the pod; read as labels first, then as annotations.
pub(crate) const INDEX: [&str; 5] = [
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "hccl/rankIndex",
];

/// Annotation of the pods of a rank group: how many of them there are.
pub const RANK_GROUP_SIZE: &str = "muster.dev/rank-group-size";

/// Annotation of such pods: how long a table may take before that counts as failure. The second name is the seed's.
pub const RANKTABLE_TIMEOUT: [&str; 2] =
    ["muster.dev/ranktable-timeout", "kthena.io/ranktable-timeout"];

/// Annotation of such pods: the order of ranks, whatever the template says.
pub const RANKTABLE_ORDER: [&str; 2] = ["muster.dev/ranktable-order", "kthena.io/ranktable-order"];
