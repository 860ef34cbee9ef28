//! What a pod may ask for, and what may change in it.

use muster_objects::status::FieldError;
use serde_json::Value;

/// Checks of a new pod, without its metadata.
pub(in super::super) fn validate_create(_pod: &Value) -> Vec<FieldError> {
    Vec::new()
}
