//! The engine, run with an end: a cycle of a large cluster can take long where many might make room for many.

use std::sync::mpsc;
use std::time::Duration;

use muster_scheduler::config::ActionName;
use muster_scheduler::decide;
use muster_scheduler::decisions::Decisions;
use muster_scheduler::snapshot::build;

use super::super::world::World;

/// What the engine has decided.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) decisions: Decisions,
    /// Only free room was looked at.
    pub(crate) search_left_out: bool,
}

/// Runs a cycle. If that takes too long, a shorter one that moves and evicts nobody.
pub(crate) fn run(world: &World, patience: Duration) -> Ran {
    if world.partial.is_some() {
        return Ran::default();
    }
    let (input, mut config, now) = (world.input.clone(), world.config.clone(), world.now);
    if !patience.is_zero() {
        let (send, receive) = mpsc::channel();
        let whole = config.clone();
        // The engine has no clock to end by. A thread that is late ends with the program.
        std::thread::spawn(move || {
            let decisions = decide(&build(&input, &whole.params, now), &whole, now);
            let _nobody_waits = send.send(decisions);
        });
        if let Ok(decisions) = receive.recv_timeout(patience) {
            return Ran { decisions, search_left_out: false };
        }
    }
    config.actions.retain(|action| *action == ActionName::Allocate);
    Ran { decisions: decide(&world.snapshot(), &config, now), search_left_out: true }
}
