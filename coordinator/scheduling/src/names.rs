//! Names that others rely on.

/// Annotation of the first queue of a cluster while those below it are still to be made.
pub const BOOTSTRAP: &str = "muster.dev/bootstrap";
