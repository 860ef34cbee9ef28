//! ModelServing: what a person asks for, and what is to be done about it. No clock, no I/O, no async.
//!
//! ```text
//!   ModelServing (api) ─┐
//!   the seed's (seed) ──┴─▶ machine: store + what is seen ──▶ plan: writes, in order ──▶ the coordinator does them
//!                              ▲                                                              │
//!                              └───────────── pods, services, PodGroups, as they change ◀─────┘
//! ```

pub mod api;
pub mod budget;
pub mod check;
mod controller_revision;
pub mod defaults;
mod deletion;
pub mod dress;
pub mod field_error;
mod leftovers;
pub mod machine;
pub mod naming;
mod plan;
pub mod plugins;
pub mod pod;
pub mod pod_fields;
mod pod_group;
pub mod preview;
pub mod quantity;
pub mod ranktable;
mod readiness;
mod recovery;
pub mod revision;
pub mod scale;
pub mod seed;
pub mod seen;
mod service;
pub mod shape;
pub mod status;
pub mod step;
pub mod store;
pub mod validate;
mod wanted;
