//! Names of rank tables: what a ModelServing says about them, and the marks that its pods carry.

pub use muster_ranktable::names::{
    RANK_GROUP, RANK_GROUP_SIZE, RANKTABLE_DELIVERY, RANKTABLE_ORDER, RANKTABLE_TEMPLATE,
    RANKTABLE_TIMEOUT, record,
};

/// Annotation of a ModelServing: which pods share a table, `role` or `group`. The second name is the seed's.
pub const RANKTABLE_LEVEL: [&str; 2] = ["muster.dev/ranktable-level", "kthena.io/ranktable-level"];

/// Annotation of a ModelServing: what a role is to its table, `role-instance` or `role-name`.
pub const RANKTABLE_SCOPE: [&str; 2] = ["muster.dev/ranktable-scope", "kthena.io/ranktable-scope"];
