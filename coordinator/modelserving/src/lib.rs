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
mod controller_revision;
mod deletion;
mod leftovers;
pub mod machine;
pub mod naming;
mod plan;
pub mod plugins;
pub mod pod;
mod pod_group;
pub mod quantity;
mod readiness;
mod recovery;
pub mod revision;
pub mod scale;
pub mod seen;
mod service;
pub mod status;
pub mod step;
pub mod store;
mod wanted;
