//! Every label, annotation and name that is read or written here.

/// The API of PodGroups.
pub const POD_GROUP_API: &str = "scheduling.run.ai/v2alpha2";
/// Kind of KAI's pod groups.
pub const POD_GROUP: &str = "PodGroup";
/// On a pod, an annotation: its PodGroup.
pub const GROUP: &str = "pod-group-name";
/// On a pod, a label: its part in the PodGroup.
pub const SUB_GROUP: &str = "kai.scheduler/subgroup-name";
/// On a pod or an owner, an annotation: `true` leaves its pods alone.
pub const SKIP: &str = "kai.scheduler/skip-podgrouper";
/// On a PodGroup, an annotation: what it is for.
pub const TOP_OWNER: &str = "kai.scheduler/top-owner-metadata";
/// A label: the queue.
pub const QUEUE: &str = "kai.scheduler/queue";
/// A label: the node pool.
pub const NODE_POOL: &str = "kai.scheduler/node-pool";
/// A label: the project, after which a queue is called.
pub const PROJECT: &str = "project";
/// A label or an annotation: who asked.
pub const USER: &str = "user";
/// A label: the priority class.
pub const PRIORITY: &str = "priorityClassName";
/// A label: whether it may be preempted.
pub const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";
/// An annotation: how long it waits before it makes others go.
pub const PREEMPTION_DELAY: &str = "kai.scheduler/preemption-delay";
/// An annotation: how long it may stay below its minimum.
pub const STALENESS: &str = "kai.scheduler/staleness-grace-period";
/// An annotation: which topology.
pub const TOPOLOGY: &str = "kai.scheduler/topology";
/// An annotation: the level that all pods must share.
pub const TOPOLOGY_REQUIRED: &str = "kai.scheduler/topology-required-placement";
/// An annotation: the level that all pods should share.
pub const TOPOLOGY_PREFERRED: &str = "kai.scheduler/topology-preferred-placement";
/// An annotation: how many workers make a segment.
pub const SEGMENT_SIZE: &str = "kai.scheduler/segment-size";
/// An annotation: the level that all pods of a segment must share.
pub const SEGMENT_REQUIRED: &str = "kai.scheduler/segment-topology-required-placement";
/// An annotation: the level that all pods of a segment should share.
pub const SEGMENT_PREFERRED: &str = "kai.scheduler/segment-topology-preferred-placement";
/// An annotation: how many pods of a Job, or jobs of a JobSet, must be there at once.
pub const MIN_MEMBER: &str = "kai.scheduler/batch-min-member";

/// Where nothing else says so.
pub const DEFAULT_QUEUE: &str = "default-queue";
/// The priority class of training, and of all else.
pub const TRAIN: &str = "train";
/// The priority class of interactive work.
pub const BUILD: &str = "build";
/// The priority class of serving.
pub const INFERENCE: &str = "inference";

/// Marks of PodGroups of other dialects: annotations on a pod. Who has one belongs to that group.
pub const FOREIGN_ANNOTATIONS: [&str; 2] =
    ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"];
/// The same as labels.
pub const FOREIGN_LABELS: [&str; 2] =
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"];
