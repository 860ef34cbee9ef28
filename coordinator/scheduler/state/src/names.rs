//! Names that others rely on: annotations.

/// Annotation of a pod, a pod group or a queue: what becomes of pods that stand on something bad.
pub const FAULT_POLICY: &str = "muster.dev/fault-policy";

/// Annotation of a pod group: when it was last restarted because of a fault.
pub const FAULT_RESTART: &str = "muster.dev/fault-restart";

/// Annotation of a pod group: how many restarts there have been in a row.
pub const FAULT_RESTARTS: &str = "muster.dev/fault-restarts";

/// Annotation of a pod group: that restart is about pods which got their nodes no later.
pub const FAULT_RESTART_UP_TO: &str = "muster.dev/fault-restart-up-to";
