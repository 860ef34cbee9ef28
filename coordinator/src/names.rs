//! Every name that others rely on: labels, annotations, field managers.

/// Field manager of what the coordinator writes.
pub const FIELD_MANAGER: &str = "muster-coordinator";

/// Label of pods that share one rank table.
pub const RANK_GROUP: &str = muster_ranktable::RANK_GROUP;

/// Annotation of such pods: how many of them there are.
pub const RANK_GROUP_SIZE: &str = "muster.dev/rank-group-size";

/// Annotation of LeaderWorkerSet's pods that says the same.
pub const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";

/// Annotation of such pods: the ConfigMap of the template. The second name is the seed's.
pub const RANKTABLE_TEMPLATE: [&str; 2] =
    ["muster.dev/ranktable-template", "kthena.io/ranktable-template"];

/// Annotation of such pods: how long a table may take before that counts as failure.
pub const RANKTABLE_TIMEOUT: [&str; 2] =
    ["muster.dev/ranktable-timeout", "kthena.io/ranktable-timeout"];

/// Annotation of such pods: `agent` or `configmap`.
pub const RANKTABLE_DELIVERY: &str = "muster.dev/ranktable-delivery";

/// Annotation that injection leaves on a pod: the file that it waits for.
pub const RANKTABLE_FILE: &str = "muster.dev/ranktable-file";

/// Annotation of pods that read a ConfigMap volume: the generation. Its change makes the kubelet look at once.
pub const RANKTABLE_GENERATION: &str = "muster.dev/ranktable-generation";

/// Name of the volume that holds the table.
pub const VOLUME: &str = "ranktable";

/// Label of the ConfigMaps that are records of tables; its value is `true`.
pub const RECORD: &str = "muster.dev/ranktable-record";

/// Annotation of webhook configurations whose CA the coordinator fills in; its value is `true`.
pub const INJECT_CA: &str = "muster.dev/inject-ca";

/// Secret that holds the coordinator's certificates and keys.
pub const CERTS_SECRET: &str = "muster-coordinator-certs";

/// ConfigMap that tells agents which authorities to trust.
pub const CA_CONFIG_MAP: &str = "muster-coordinator-ca";

/// Name of the record of a group.
pub fn record(group: &str) -> String {
    format!("{group}-ranktable")
}
