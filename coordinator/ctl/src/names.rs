//! Names of Muster that are read here.

/// A node's label: the super-pod that it is in.
pub(crate) const SUPER_POD: &str = "muster.dev/super-pod";
