//! What the coordinator does with what it knows; only the leader runs them.

pub mod dijob;
pub mod modelserving;
pub mod ranktable;
pub mod runtime;
pub mod trainjob;
