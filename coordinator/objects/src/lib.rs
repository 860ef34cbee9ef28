//! How Kubernetes objects behave, as pure functions over JSON.
//!
//! This crate decides; it never does I/O, reads no clock and keeps no state. The sandbox's API server
//! (`muster-sandbox`) is the thin edge around it.
//!
//! ```text
//!   request body ──▶ patch / strategic / apply ──▶ schema (prune, default, validate, CEL) ──▶ object
//!                          │                              │
//!                        shape  (how lists merge)       managed  (who owns which field)
//! ```
//!
//! Start reading at [`apply`] for server-side apply, at [`schema`] for custom resources and at
//! [`status`] for what a client sees when something is refused.

pub mod apply;
pub mod fieldset;
pub mod managed;
pub mod meta;
pub mod patch;
pub mod policy;
pub mod rbac;
pub mod schema;
pub mod select;
pub mod shape;
pub mod status;
pub mod strategic;
