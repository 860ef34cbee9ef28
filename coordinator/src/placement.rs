//! Placing pods: what belongs together, what is decided, and what is written of it.
//!
//! ```text
//!   pods ──▶ grouper ──▶ PodGroups, marks of pods
//!   bootstrap: the queues of a cluster that has none
//! ```

pub mod bootstrap;
pub mod grouper;
