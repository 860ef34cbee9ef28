//! Every name that others rely on: annotations, labels, the field manager.

/// Field manager of what the agent writes.
pub const FIELD_MANAGER: &str = "muster-agent";

/// Label of pods that share one rank table; only such pods get tables.
pub const RANK_GROUP: &str = "muster.dev/rank-group";

/// Annotation of Ascend's device plugin: the devices that a pod really has, `Ascend910-4,Ascend910-5`.
pub const ASCEND_REAL: &str = "huawei.com/AscendReal";

/// Annotation of Ascend's device plugin: the devices that the kubelet thinks it gave.
pub const ASCEND_KUBELET: &str = "huawei.com/kltDev";

/// Audience of the token that the agent shows to the coordinator.
pub const AUDIENCE: &str = "muster-coordinator";

/// Annotation of the kubelet on the API's copy of a static pod: the uid by which the kubelet itself knows the pod.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// Annotation of the kubelet that marks such a copy; it says the same.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
