//! Why a ModelServing cannot be reconciled.

use std::time::Duration;

use muster_runtime::reconciler::ReconcileError;
use muster_runtime::writer::WriteError;

/// Why a ModelServing is not where it should be.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ServingError {
    pub cause: Cause,
    /// The machine is told something after this, though the ModelServing rests.
    pub timer: Option<Duration>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The plan cannot go on.
    #[error("{0}")]
    Plan(String),
}

// === impl Cause ===

impl Cause {
    /// Whether a person should see it: what is over with the next reconcile is nobody's trouble.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Write(WriteError::Conflict { .. } | WriteError::Gone { .. }))
    }
}

// === impl ServingError ===

impl ReconcileError for ServingError {
    fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::Write(error) => error.reason(),
            Cause::Plan(_) => "plan",
        }
    }

    fn is_not_leader(&self) -> bool {
        matches!(&self.cause, Cause::Write(WriteError::NotLeader(_)))
    }

    fn retry_within(&self) -> Option<Duration> {
        self.timer
    }
}
