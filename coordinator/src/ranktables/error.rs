//! Why a rank group rests before it is reconciled again.

use muster_runtime::ReconcileError;
use muster_runtime::writer::WriteError;

/// Why a rank group rests before it is reconciled again.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// Something was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The table is neither in the record nor can it be made again.
    #[error("the recorded table cannot be had any more: the next generation takes its place")]
    TableLost,
    /// Pods that read the record in a volume do not know of the table.
    #[error("no pod could be told of the table")]
    PodsNotAnnotated,
}

// === impl GroupError ===

impl ReconcileError for GroupError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Write(error) => error.reason(),
            Self::TableLost => "table-lost",
            Self::PodsNotAnnotated => "pods-not-annotated",
        }
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::Write(WriteError::NotLeader(_)))
    }
}
