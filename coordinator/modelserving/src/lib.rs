//! ModelServing: what a person asks for, and what is to be done about it. No clock, no I/O, no async.
//!
//! ```text
//!   ModelServing (api) ─┐
//!   the short shape ──┴─▶ machine: store + what is seen ──▶ plan: writes, in order ──▶ the coordinator does them
//!                              ▲                                                              │
//!                              └───────────── pods, services, PodGroups, as they change ◀─────┘
//! ```

pub mod api;
pub mod budget;
pub mod check;
mod controller_revision;
pub mod defaults;
mod deletion;
mod leftovers;
pub mod lws;
pub mod machine;
pub mod naming;
mod plan;
pub mod plugins;
pub mod pod;
pub mod pod_fields;
mod pod_group;
pub mod preview;
pub mod ranktable;
mod readiness;
mod recovery;
pub mod revision;
pub mod scale;
pub mod seen;
mod service;
pub mod shape;
pub mod short;
pub mod status;
pub mod step;
pub mod store;
pub mod table_mutator;
pub mod validate;
mod wanted;
