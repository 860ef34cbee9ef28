//! What the coordinator does with what it knows; only the leader runs them.

pub mod modelserving;
pub mod ranktable;
pub mod runtime;
pub mod trainjob;
