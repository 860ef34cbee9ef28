//! Why a report is not taken, in the words of Kubernetes.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

/// Why a report is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub code: StatusCode,
    pub message: String,
}

// === impl Refused ===

impl Refused {
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What the API server said, with its code if it is the reporter's fault.
    pub fn of(error: &kube::Error) -> Self {
        let refused = match error {
            kube::Error::Api(refused) => refused,
            other => return Self::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        };
        let code = match refused.code {
            404 => StatusCode::NOT_FOUND,
            400 | 422 => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, refused.message.clone())
    }

    /// A `Status`, as the API server answers.
    pub fn response(&self) -> Response {
        let reason = match self.code {
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            _ => "InternalError",
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": reason, "code": self.code.as_u16(),
        });
        (self.code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}
