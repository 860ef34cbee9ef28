//! What is wrong with a field, in the words that Kubernetes has for it.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldError {
    /// Where: `spec.template.roles[0].name`.
    pub field: String,
    /// Which kind of wrong.
    #[serde(rename = "type")]
    pub kind: FieldErrorKind,
    /// Why.
    pub detail: String,
    /// What is there; null where nothing is, an empty text where it says nothing.
    pub bad_value: Value,
    /// What helps. It is not part of the text that the API server shows.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
}

/// Which kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// It must be there.
    Required,
    /// It cannot be this.
    Invalid,
    /// It is none of the words that are known.
    NotSupported,
    /// It is there twice.
    Duplicate,
    /// It must not be there.
    Forbidden,
    /// There are too many of them.
    TooMany,
}

// === impl FieldErrorKind ===

impl FieldErrorKind {
    /// The reason of a cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooMany => "Too many",
        }
    }

    /// Whether the text shows what is there.
    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden)
    }
}

impl Serialize for FieldErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reason())
    }
}

// === impl FieldError ===

impl FieldError {
    /// Something is wrong with what is there.
    pub fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let (field, detail, bad_value) = (field.into(), detail.into(), bad_value.into());
        Self { field, kind, detail, bad_value, remedy: "" }
    }

    /// It cannot be this.
    pub fn invalid(
        field: impl Into<String>,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::Invalid, field, bad_value, detail)
    }

    /// It must be there.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, "", detail)
    }

    /// It must not be there.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, "", detail)
    }

    /// With what helps.
    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.kind.words())?;
        if self.kind.shows_value() {
            write!(f, ": {}", self.bad_value)?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_kubernetes_writes_it() {
        let shown = |error: FieldError| error.to_string();
        assert_eq!(
            shown(FieldError::invalid("spec.replicas", -1, "too few")),
            "spec.replicas: Invalid value: -1: too few"
        );
        assert_eq!(
            shown(FieldError::invalid("spec.replicas", Value::Null, "none")),
            "spec.replicas: Invalid value: null: none"
        );
        assert_eq!(
            shown(FieldError::invalid("a[0].b", "x", "no")),
            r#"a[0].b: Invalid value: "x": no"#
        );
        assert_eq!(shown(FieldError::required("a", "say it")), "a: Required value: say it");
        assert_eq!(shown(FieldError::forbidden("a", "")), "a: Forbidden");
        let twice = FieldError::new(FieldErrorKind::Duplicate, "a[1].name", "x", "");
        assert_eq!(shown(twice), r#"a[1].name: Duplicate value: "x""#);
    }

    #[test]
    fn a_remedy_is_not_part_of_the_text_but_of_the_json() {
        let error = FieldError::required("a", "why").remedy("add it");
        assert_eq!(error.to_string(), "a: Required value: why");
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            serde_json::json!({"field": "a", "type": "FieldValueRequired", "detail": "why",
                "badValue": "", "remedy": "add it"})
        );
    }
}
