//! What the crate does, part by part.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test reads its samples, and a law panics where it does not hold"
)]

#[path = "behaviour/ascend.rs"]
mod ascend;
#[path = "behaviour/clusters.rs"]
mod clusters;
#[path = "behaviour/config.rs"]
mod config;
#[path = "behaviour/devices.rs"]
mod devices;
#[path = "behaviour/dialects.rs"]
mod dialects;
#[path = "behaviour/division.rs"]
mod division;
#[path = "behaviour/engine.rs"]
mod engine;
#[path = "behaviour/extension.rs"]
mod extension;
#[path = "invariants.rs"]
mod invariants;
#[path = "behaviour/kinds.rs"]
mod kinds;
#[path = "behaviour/laws.rs"]
mod laws;
#[path = "behaviour/load.rs"]
mod load;
#[path = "behaviour/reasons.rs"]
mod reasons;
#[path = "behaviour/world.rs"]
mod world;
