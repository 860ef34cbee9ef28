//! The pipeline: what passes decide, that plugins commute, and laws that hold for all jobs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod commute;
mod fuzzed;
mod given;
mod laws;
mod passes;
mod queue;
mod ranktable;
mod registry;
mod rules;
