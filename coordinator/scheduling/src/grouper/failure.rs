//! Why a pod has no group, and who hears of it.

use muster_podgrouper::{Class, GroupError};

use super::reader::ReadError;
use muster_runtime::writer::WriteError;

/// The class of a failure that ends with the term: this coordinator is not the leader any more.
pub const NOT_LEADER: &str = "not-leader";

/// Why a pod has no group.
pub struct Failure {
    /// The word for it.
    pub class: &'static str,
    /// The object, the field and the remedy.
    pub message: String,
    /// Whether it may go better later though the pod stays as it is.
    pub retry: bool,
    /// Whether somebody should hear of it: not if only the API server has trouble.
    pub said: bool,
}

// === impl Failure ===

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        // The pod itself would have to change.
        let lasting = matches!(
            error.class,
            Class::OwnerUidMismatch
                | Class::PodLabelMissing
                | Class::PodIndexInvalid
                | Class::GroupNameEmpty
                | Class::CronJobJobMissing
                | Class::KnativeRevisionLabel
                | Class::PodGangLabelMissing
        );
        let (class, message) = (error.class.reason(), error.to_string());
        Self { class, message, retry: !lasting, said: true }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self { class: "api", message: error.to_string(), retry: true, said: false }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let (code, message) = match &error {
            WriteError::Refused { what, error } => {
                (code(error), format!("{what}: {}", plain(error)))
            }
            _ => (0, error.to_string()),
        };
        let (class, said) = match code {
            400 | 403 | 413 | 422 => ("refused", true),
            _ if matches!(error, WriteError::NotLeader(_)) => (NOT_LEADER, false),
            _ => ("api", false),
        };
        let retry = class != NOT_LEADER;
        Self { class, message, retry, said }
    }
}

/// What the API server says, without the rest of its answer.
pub fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}
