//! From a TrainJob and its runtime to the objects that run it. No clock, no I/O, no async.
//!
//! ```text
//!   runtime (live, or its snapshot) ─┐
//!   TrainJob, its patches ───────────┴─▶ Info ─▶ MLPolicy ─▶ PodGroupPolicy ─▶ PodSpec ─▶ PodNetwork ─▶ Build ─▶ objects
//!                                         │
//!                                         └─▶ CustomValidation ─▶ errors, warnings
//!   JobSet ─▶ TrainJobStatus ─▶ status
//! ```
//!
//! What happens in a stage is decided by plugins: [`plugin`] has their traits, [`registry`] their list, and each has a
//! file of its own below `plugin/`. Plugins of one stage must commute: a test shuffles them.
//!
//! [`reconcile::reconcile`] decides a whole pass; the coordinator only reads, calls it, and writes. [`defaults`] and
//! [`validate`] are what the webhooks answer.

pub mod cluster;
pub mod conditions;
pub mod defaults;
pub mod event;
pub mod in_use;
pub mod info;
pub mod keys;
pub mod name;
pub mod patch;
pub mod plugin;
pub mod pod_set;
pub mod reconcile;
pub mod registry;
pub mod report;
pub mod requests;
pub mod resources;
pub mod runtime;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod tidy;
pub mod upsert;
pub mod validate;

pub use cluster::Cluster;
pub use info::Info;
pub use pod_set::PodSet;
pub use reconcile::{Outcome, Pass, reconcile};
pub use registry::Registry;
pub use runtime::{Runtime, RuntimeKind, Runtimes};
pub use settings::Settings;

/// The code of `docs/plugins.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/plugins.md")]
mod plugins_page {}
