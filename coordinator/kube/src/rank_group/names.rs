//! The names of the labels and annotations of rank groups.

/// The label that puts a pod into a rank group.
pub const RANK_GROUP: &str = "muster.dev/rank-group";

/// Annotation of the pods of a rank group: how many of them there are.
pub const RANK_GROUP_SIZE: &str = "muster.dev/rank-group-size";

/// Annotation of such pods: the ConfigMap of the template. The second name is Kthena's.
pub const RANKTABLE_TEMPLATE: [&str; 2] =
    ["muster.dev/ranktable-template", "kthena.io/ranktable-template"];

/// Annotation of such pods: how long a table may take before that counts as failure. The second name is Kthena's.
pub const RANKTABLE_TIMEOUT: [&str; 2] =
    ["muster.dev/ranktable-timeout", "kthena.io/ranktable-timeout"];

/// Annotation of such pods: the order of ranks, whatever the template says. The second name is Kthena's.
pub const RANKTABLE_ORDER: [&str; 2] = ["muster.dev/ranktable-order", "kthena.io/ranktable-order"];

/// Annotation of such pods: `agent` or `configmap`.
pub const RANKTABLE_DELIVERY: &str = "muster.dev/ranktable-delivery";

/// Annotation of such pods: the containers that see the table, `a,b`. Without it, all.
pub const RANKTABLE_CONTAINERS: &str = "muster.dev/ranktable-containers";

/// The value of [`RANKTABLE_ORDER`] by which ranks follow the pods' numbers.
pub const ORDER_POD: &str = "pod";

/// What a workload's annotations may say of a table and its pods repeat.
pub const COPIED: [&[&str]; 3] = [&RANKTABLE_TIMEOUT, &RANKTABLE_ORDER, &[RANKTABLE_DELIVERY]];
