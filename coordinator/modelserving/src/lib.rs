//! ModelServing: what a person asks for, and what is to be done about it. No clock, no I/O, no async.
//!
//! ```text
//!   ModelServing (api) ─┐
//!   the seed's (seed) ──┴─▶ machine: store + what is seen ──▶ plan: writes, in order ──▶ the coordinator does them
//!                              ▲                                                              │
//!                              └───────────── pods, services, PodGroups, as they change ◀─────┘
//! ```

pub mod api;
pub mod check;
pub mod defaults;
pub mod field_error;
pub mod ranktable;
pub mod seed;
pub mod shape;
pub mod validate;
