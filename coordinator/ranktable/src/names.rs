//! Names that pods carry: what injection gives them, and the labels and annotations by which the known workloads place
//! them in their group. What marks a pod of a group is in [`muster_kube::rank_group`].

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
