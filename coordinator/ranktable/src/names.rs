//! Labels and annotations that place a pod in its group: our own, and those of the workloads that are known.

/// The label that puts a pod into a rank group.
pub const RANK_GROUP: &str = "muster.dev/rank-group";

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
