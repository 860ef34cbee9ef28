//! Why a pod has no group, and who hears of it.

use muster_podgrouper::{Class, GroupError};

use super::reader::Trouble;
use crate::write::WriteError;

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

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self { class: "api", message: trouble.to_string(), retry: true, said: false }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let code = match &error {
            WriteError::Refused { error, .. } => match &**error {
                kube::Error::Api(status) => status.code,
                _ => 0,
            },
            _ => 0,
        };
        let (class, said) = match code {
            400 | 403 | 413 | 422 => ("refused", true),
            _ if matches!(error, WriteError::Deposed(_)) => ("deposed", false),
            _ => ("api", false),
        };
        let retry = class != "deposed";
        Self { class, message: error.to_string(), retry, said }
    }
}
