//! What a cycle does, one action after the other, on one session.

mod allocate;
mod consolidation;
mod gang;
mod preempt;
mod reclaim;
mod representative;
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
