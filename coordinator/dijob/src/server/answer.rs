//! Answers: an envelope that DI-engine's client takes apart.

use serde::Serialize;
use serde_json::{Value, json};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// What it says.
    pub body: Body,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The envelope.
    Json(Value),
    /// Text, outside of the API.
    Text(String),
}

/// The replicas of one coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replicas {
    /// Its namespace.
    pub namespace: String,
    /// Its name, as the request has it.
    pub coordinator: String,
    /// Where its collectors are.
    pub collectors: Option<Vec<String>>,
    /// Where its logic learners are.
    pub learners: Option<Vec<String>>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Why.
    pub message: String,
    /// What was done before.
    pub data: Option<Box<Replicas>>,
}

// === impl Answer ===

impl Answer {
    /// It went well.
    pub fn success(message: &str, data: Value) -> Self {
        let body = json!({"success": true, "code": 0, "message": message, "data": data});
        Self { status: 200, body: Body::Json(body) }
    }

    /// It did not.
    pub fn failure(status: u16, message: &str, data: Value) -> Self {
        let body = json!({"success": false, "code": 1, "message": message, "data": data});
        Self { status, body: Body::Json(body) }
    }

    /// The path does not know this method.
    pub fn not_implemented(method: &str) -> Self {
        Self::failure(501, &format!("{method} not implemented"), Value::Null)
    }

    /// Text, outside of the API.
    pub fn plain(status: u16, text: &str) -> Self {
        Self { status, body: Body::Text(text.to_owned()) }
    }
}

// === impl Refusal ===

impl Refusal {
    /// What was asked makes no sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), data: None }
    }

    /// Something is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { status: 404, message: message.into(), data: None }
    }

    /// Something went wrong.
    pub fn error(message: impl Into<String>) -> Self {
        Self { status: 500, message: message.into(), data: None }
    }

    /// After this was done.
    #[must_use]
    pub fn after(mut self, data: Replicas) -> Self {
        self.data = Some(Box::new(data));
        self
    }

    /// As an answer to a request that writes.
    pub fn answer(self) -> Answer {
        let data = self.data.map(|data| *data).unwrap_or_default();
        let data = serde_json::to_value(data).unwrap_or_default();
        Answer::failure(self.status, &self.message, data)
    }

    /// As an answer to a question.
    pub fn answer_to_query(self) -> Answer {
        Answer::failure(self.status, &self.message, Value::Null)
    }
}
