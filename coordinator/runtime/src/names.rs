//! Names that others rely on: the field manager, the Lease and its annotations.

/// Field manager of what the coordinator writes.
pub const FIELD_MANAGER: &str = "muster-coordinator";

/// Name of the Lease that says which coordinator leads.
pub const LEASE: &str = "muster-coordinator";

/// Annotation of that Lease: a number that grows with every change of leader.
pub const LEADER_EPOCH: &str = "muster.dev/epoch";

/// Annotation of that Lease: where the leader's hub is, `https://host:port`.
pub const LEADER_ADDRESS: &str = "muster.dev/leader-address";
