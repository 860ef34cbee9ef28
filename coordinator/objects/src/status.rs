//! The `Status` object: every refusal that a client of the API can see.
//!
//! One constructor per reason, so that code, reason and wording stay together.

use std::borrow::Cow;

use muster_kube::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A refusal, with all that a client needs to act on it. Serialised by [`Status::to_value`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`.
    pub reason: Cow<'static, str>,
    /// What a person reads.
    pub message: String,
    /// The object and the causes, where there are any.
    pub details: Option<Box<Details>>,
    /// What the client is warned of beside the refusal, in headers.
    pub warnings: Vec<String>,
}

/// Which object was refused, and why in detail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Object name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource (plural) or kind, as Kubernetes mixes them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid, where a precondition was on it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per field or conflict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One reason within a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// e.g. `FieldValueRequired`, `FieldManagerConflict`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What a person reads.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// JSON path of the field, e.g. `spec.replicas`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// Group and plural of the resource that a refusal speaks of.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural name.
    pub plural: &'a str,
}

// === impl Resource ===

impl std::fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Resource<'_> {
    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.plural.to_owned(),
            ..Details::default()
        }
    }
}

// === impl Status ===

impl Status {
    /// A refusal without details.
    pub fn new(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            warnings: Vec::new(),
        }
    }

    fn with(code: u16, reason: &'static str, message: String, details: Details) -> Self {
        let details = Some(Box::new(details));
        Self { code, reason: reason.into(), message, details, warnings: Vec::new() }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: no valid credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: the caller may not do this; `why` is the whole sentence after the colon.
    pub fn forbidden(resource: Resource<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::with(403, "Forbidden", message, resource.details(name))
    }

    /// 404: no such object.
    pub fn not_found(resource: Resource<'_>, name: &str) -> Self {
        Self::with(
            404,
            "NotFound",
            format!("{resource} \"{name}\" not found"),
            resource.details(name),
        )
    }

    /// 404: no such route.
    pub fn no_route() -> Self {
        let mut status =
            Self::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 405: the route exists, the verb does not.
    pub fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(Box::default());
        status
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: Resource<'_>, name: &str) -> Self {
        Self::with(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
            resource.details(name),
        )
    }

    /// 409: the object cannot be changed as asked, `why` says so.
    pub fn conflict(resource: Resource<'_>, name: &str, why: &str) -> Self {
        Self::with(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
            resource.details(name),
        )
    }

    /// 409: the writer's copy is stale.
    pub fn stale(resource: Resource<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409: server-side apply met fields that others own; one cause per field.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::with(409, "Conflict", message, Details { causes, ..Details::default() })
    }

    /// 410: the asked revision is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: the body is over the limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// 415: no decoder for this content type.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// 422: the object is well formed but not valid; one cause per field error.
    /// `kind` is the CamelCase kind.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        // Causes are kept as they are; the message says the same thing only once.
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let listed = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes = errors
            .iter()
            .map(|e| Cause {
                reason: e.kind.reason().to_owned(),
                message: e.body(),
                field: e.field.clone(),
            })
            .collect();
        Self::with(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {listed}"),
            Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes,
                ..Details::default()
            },
        )
    }

    /// 429: try again later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::with(
            429,
            "TooManyRequests",
            message.into(),
            Details { retry_after_seconds: Some(retry_after_seconds), ..Details::default() },
        )
    }

    /// 500: our own fault.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::with(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
            Details {
                causes: vec![Cause { message: message.to_string(), ..Cause::default() }],
                ..Details::default()
            },
        )
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The same refusal with warnings beside it.
    pub fn warning(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The object that goes over the wire.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if self.reason.is_empty() {
            crate::meta::as_map(&mut value).remove("reason");
        }
        if let Some(details) = &self.details {
            value["details"] = serde_json::to_value(details).unwrap_or_default();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use muster_kube::FieldErrorKind;

    use super::*;

    const JOBS: Resource<'static> = Resource { group: "batch", plural: "jobs" };

    #[test]
    fn a_missing_object_is_named_with_its_group() {
        let status = Status::not_found(JOBS, "a");
        assert_eq!(status.message, "jobs.batch \"a\" not found");
        assert_eq!(
            status.to_value()["details"],
            json!({"name": "a", "group": "batch", "kind": "jobs"})
        );
    }

    #[test]
    fn several_field_errors_stand_in_brackets_and_each_is_a_cause() {
        let errors = [
            FieldError::new(FieldErrorKind::Required, "spec.a", ""),
            FieldError::with_value(FieldErrorKind::Invalid, "spec.b", &json!("x"), "must be y"),
        ];
        let status = Status::invalid("batch", "Job", "a", &errors);
        assert_eq!(
            status.message,
            "Job.batch \"a\" is invalid: [spec.a: Required value, spec.b: Invalid value: \"x\": must be y]"
        );
        assert_eq!(status.details.unwrap().causes.len(), 2);
    }
}
