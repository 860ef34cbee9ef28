//! What a cycle does, one action after the other, on one session.

mod allocate;
mod consolidation;
mod gang;
mod preempt;
mod reclaim;
mod representative;
mod solve_each;
mod solver;
mod stale;

use crate::{config::ActionName, session::Session};

/// Runs an action.
pub fn run(session: &mut Session<'_>, action: ActionName) {
    match action {
        ActionName::Allocate => allocate::run(session),
        ActionName::Consolidation => consolidation::run(session),
        ActionName::Reclaim => reclaim::run(session),
        ActionName::Preempt => preempt::run(session),
        ActionName::StaleGangEviction => stale::run(session),
    }
}

/// Whether the pods that a group would place next could run if everybody else left. Notes why not.
fn could_run_alone(session: &mut Session<'_>, gang: &crate::state::Gang) -> bool {
    let tasks = session.to_allocate(gang, false);
    match tasks.iter().try_for_each(|task| session.victim_invariant(*task)) {
        Ok(()) => true,
        Err(refusal) => {
            session.ledger.refuse(gang.job, refusal);
            false
        }
    }
}
