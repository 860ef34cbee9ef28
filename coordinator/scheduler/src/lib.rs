//! The scheduler's engine: from a cluster's objects to decisions, each with its reason. No clock, no I/O, no async.
//!
//! ```text
//!   Kubernetes objects, KAI snapshot ──▶ input ──▶ snapshot ──▶ session: actions × plugins ──▶ decisions + reasons
//!                                                  config ─────────▲
//! ```
//!
//! Start with [`decide`]; then [`framework`] for what plugins can do, and [`action`] for what a cycle does.

pub mod action;
pub mod config;
pub mod decisions;
pub mod framework;
pub mod input;
pub mod plugin;
pub mod reason;
pub mod selector;
pub mod session;
pub mod simulate;
pub mod snapshot;
pub mod state;
pub mod statement;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    config::Config,
    decisions::{Decisions, PodOutcome},
    framework::Registry,
    session::Session,
    snapshot::Snapshot,
};

/// Decides one cycle with the built-in plugins.
pub fn decide(snapshot: &Snapshot, config: &Config, now: Timestamp) -> Decisions {
    decide_with(snapshot, config, now, &Registry::default())
}

/// Decides one cycle with the plugins of a registry.
pub fn decide_with(
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
    registry: &Registry,
) -> Decisions {
    run(snapshot, config, now, registry, |_| ()).0
}

/// Decides one cycle, and says how far every pod of a group is when it has ended.
pub fn decide_and_tell(
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> (Decisions, BTreeMap<String, PodOutcome>) {
    run(snapshot, config, now, &Registry::default(), |session| session.outcomes())
}

fn run<T>(
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
    registry: &Registry,
    look: impl FnOnce(&Session<'_>) -> T,
) -> (Decisions, T) {
    debug_assert_eq!(snapshot.now, now, "a snapshot is of one instant");
    let mut session = Session::open(snapshot, config, registry);
    let fair_share = session.fair_shares();
    for action in &config.actions {
        action::run(&mut session, *action);
    }
    session.close();
    let seen = look(&session);
    (Decisions { fair_share, ..session.decisions() }, seen)
}

/// The plugin of the documentation is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/scheduler.md")]
struct Documentation;
