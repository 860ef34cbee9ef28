//! What a ModelServing's annotations say about rank tables.

/// Annotation of a ModelServing: which pods share a table, `role` or `group`. The second name is Kthena's.
pub const RANKTABLE_LEVEL: [&str; 2] = ["muster.dev/ranktable-level", "kthena.io/ranktable-level"];

/// Annotation of a ModelServing: what a role is to its table, `role-instance` or `role-name`.
pub const RANKTABLE_SCOPE: [&str; 2] = ["muster.dev/ranktable-scope", "kthena.io/ranktable-scope"];

/// All annotations that ask for rank tables begin like this.
pub const RANKTABLE_PREFIXES: [&str; 2] = ["muster.dev/ranktable-", "kthena.io/ranktable-"];
