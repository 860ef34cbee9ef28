//! The scheduler's engine: from a cluster's objects to decisions, each with its reason. No clock, no I/O, no async.
//!
//! ```text
//!   Kubernetes objects, KAI snapshot ──▶ input ──▶ snapshot ──▶ session: actions × plugins ──▶ decisions + reasons
//!                                                  config ─────────▲
//! ```

pub mod config;
pub mod duration;
pub mod input;
pub mod plugin;
pub mod quantity;
