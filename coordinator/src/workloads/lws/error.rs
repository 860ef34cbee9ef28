//! Why a LeaderWorkerSet has no ModelServing of its own, and under which reason people hear of it.

use muster_modelserving::shape::Unreadable;
use muster_runtime::reconciler::ReconcileError;
use muster_runtime::writer::WriteError;

use super::events;
use crate::workloads::Key;

/// Why a LeaderWorkerSet has no ModelServing of its own.
#[derive(Debug, thiserror::Error)]
pub enum LeaderWorkerSetError {
    /// A write has failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its name is somebody else's.
    #[error("ModelServing {key} is there and {whose}: delete it, or rename the LeaderWorkerSet")]
    Taken {
        /// Namespace and name of both.
        key: Key,
        /// Whose it is, in words.
        whose: String,
    },
}

// === impl LeaderWorkerSetError ===

impl LeaderWorkerSetError {
    /// Under which reason people hear of it; what passes by itself is not told.
    pub fn event(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) => Some(events::UNREADABLE),
            Self::Taken { .. } => Some(events::TAKEN),
            Self::Write(WriteError::Refused { .. }) => Some(events::REFUSED),
            Self::Write(_) => None,
        }
    }
}

impl ReconcileError for LeaderWorkerSetError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Write(error) => error.reason(),
            Self::Unreadable(_) => "unreadable",
            Self::Taken { .. } => "taken",
        }
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::Write(WriteError::NotLeader(_)))
    }
}
