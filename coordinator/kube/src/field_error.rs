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
    /// What is wrong with the value.
    pub detail: String,
    /// What is there.
    pub bad_value: BadValue,
    /// What helps. It is not part of the text that the API server shows.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
}

/// The value of a field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// The error does not show it.
    Hidden,
    /// A JSON value. Where a value is required or forbidden it is not part of the text.
    Json(Value),
    /// A value as Go prints it, already quoted where it is a text.
    Printed(String),
}

/// Kinds of field errors, each with Kubernetes' cause reason and wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A needed field is absent.
    Required,
    /// The value is malformed.
    Invalid,
    /// The value is not among those allowed.
    NotSupported,
    /// The value stands twice in a list that must be unique.
    Duplicate,
    /// The field may not be set (or changed) here.
    Forbidden,
    /// A reference points nowhere.
    NotFound,
    /// The value is too long.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The value has another JSON type than the schema says.
    TypeInvalid,
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
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    /// Whether the text shows a JSON value.
    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden)
    }
}

impl Serialize for FieldErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reason())
    }
}

impl Serialize for BadValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Hidden => serializer.serialize_str(""),
            Self::Json(value) => value.serialize(serializer),
            Self::Printed(text) => serializer.serialize_str(text),
        }
    }
}

// === impl FieldError ===

impl FieldError {
    /// An error that does not show the value.
    pub fn new(kind: FieldErrorKind, field: impl Into<String>, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), detail.into());
        Self { field, kind, detail, bad_value: BadValue::Hidden, remedy: "" }
    }

    /// An error that shows the value as JSON.
    pub fn with_value(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: &Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { bad_value: BadValue::Json(value.clone()), ..Self::new(kind, field, detail) }
    }

    /// An error that shows the value as it is printed here.
    pub fn printed(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self { bad_value: BadValue::Printed(value.into()), ..Self::new(kind, field, detail) }
    }

    /// The value cannot be this.
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            bad_value: BadValue::Json(value.into()),
            ..Self::new(FieldErrorKind::Invalid, field, detail)
        }
    }

    /// The field must be there.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, detail)
    }

    /// The field must not be there.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, detail)
    }

    /// Adds what helps.
    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// The text without the field: `Invalid value: "x": must be ...`.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        let shown = match &self.bad_value {
            BadValue::Json(value) => self.kind.shows_value().then(|| value.to_string()),
            BadValue::Printed(text) => Some(text.clone()),
            BadValue::Hidden => None,
        };
        if let Some(shown) = shown {
            text.push_str(": ");
            text.push_str(&shown);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
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
        let twice = FieldError::with_value(FieldErrorKind::Duplicate, "a[1].name", &"x".into(), "");
        assert_eq!(shown(twice), r#"a[1].name: Duplicate value: "x""#);
        let printed =
            FieldError::printed(FieldErrorKind::TooMany, "a", "65", "must have at most 64 items");
        assert_eq!(shown(printed), "a: Too many: 65: must have at most 64 items");
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
