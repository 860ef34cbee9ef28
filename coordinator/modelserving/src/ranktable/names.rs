//! Names of rank tables: what a ModelServing says about them, and the marks that its pods carry.

pub use muster_ranktable::names::{RANK_GROUP, RANKTABLE_DELIVERY, RANKTABLE_TEMPLATE, record};

/// Annotation of the pods of a rank group: how many of them there are.
pub const RANK_GROUP_SIZE: &str = "muster.dev/rank-group-size";

/// Annotation of a ModelServing: which pods share a table, `role` or `group`. The second name is the seed's.
pub const RANKTABLE_LEVEL: [&str; 2] = ["muster.dev/ranktable-level", "kthena.io/ranktable-level"];

/// Annotation of a ModelServing: what a role is to its table, `role-instance` or `role-name`.
pub const RANKTABLE_SCOPE: [&str; 2] = ["muster.dev/ranktable-scope", "kthena.io/ranktable-scope"];

/// Annotation of a ModelServing that its pods carry too: how long a table may take.
pub const RANKTABLE_TIMEOUT: [&str; 2] =
    ["muster.dev/ranktable-timeout", "kthena.io/ranktable-timeout"];

/// Annotation of a ModelServing that its pods carry too: the order of ranks.
pub const RANKTABLE_ORDER: [&str; 2] = ["muster.dev/ranktable-order", "kthena.io/ranktable-order"];
