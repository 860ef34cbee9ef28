//! Labels and annotations that several workloads share.

/// Label of pods and workloads: the queue that they wait in.
pub const QUEUE: &str = "kai.scheduler/queue";

/// Annotation of workloads and pods: Volcano's queue.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
