//! What is promised of groups and admission, beyond what was recorded.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test reads its samples, and a law panics where it does not hold"
)]

mod admission;
mod build;
mod definitions;
mod groups;
mod laws;
mod ours;
