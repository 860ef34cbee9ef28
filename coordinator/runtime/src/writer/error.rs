//! Why a write failed.

use std::time::Duration;

use crate::election::NotLeader;

/// Why something was not written, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This coordinator does not lead any more. Nothing was sent.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The API server has not answered in time. It may have done it.
    #[error("{what}: no answer after {after:.1?}")]
    Late {
        /// The object.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// Somebody else has changed the object since it was read.
    #[error("{what} was changed by somebody else in the meantime")]
    Conflict {
        /// The object.
        what: String,
    },
    /// Something of this name is there already.
    #[error("{what} exists already")]
    Exists {
        /// The object.
        what: String,
    },
    /// The object, or its namespace, is gone.
    #[error("{what} is not there")]
    Gone {
        /// The object.
        what: String,
    },
    /// The API server refuses it, or cannot be reached.
    #[error("{what}: {}", said(error))]
    Refused {
        /// The object.
        what: String,
        /// What it says.
        error: Box<kube::Error>,
    },
}

/// What the API server said, for a person: the message alone, not the whole `Status` that holds it.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(refused) if !refused.message.is_empty() => refused.message.clone(),
        other => muster_program::causes(other),
    }
}

impl WriteError {
    /// What the API server's answer means for this object.
    pub(super) fn of(what: String, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(said) if said.code == 409 && said.reason == "AlreadyExists" => {
                Self::Exists { what }
            }
            kube::Error::Api(said) if said.code == 409 => Self::Conflict { what },
            kube::Error::Api(said) if said.code == 404 => Self::Gone { what },
            error => Self::Refused { what, error: Box::new(error) },
        }
    }

    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotLeader(_) => "not-leader",
            Self::Late { .. } => "late",
            Self::Conflict { .. } => "conflict",
            Self::Exists { .. } => "exists",
            Self::Gone { .. } => "gone",
            Self::Refused { .. } => "refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_api_server() {
        let status: kube::core::Status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": "spec.a: Required value"}))
        .unwrap();
        let error = Box::new(kube::Error::Api(Box::new(status)));
        let refused = WriteError::Refused { what: "JobSet a".to_owned(), error };
        assert_eq!(refused.to_string(), "JobSet a: spec.a: Required value");
    }
}
