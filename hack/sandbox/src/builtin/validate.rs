//! Validation of every kind, and that of the small kinds in full.

use muster_objects::status::FieldError;
use serde_json::Value;

use super::{NameRule, metadata, name_rule, namespaced, pod};

/// See [`super::validate_create`].
pub(super) fn create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let Some(namespaced) = namespaced(group, kind) else { return Vec::new() };
    let mut errors = metadata::validate(object, namespaced, name_rule(group, kind));
    if (group, kind) == ("", "Pod") {
        errors.extend(pod::validate_create(object));
    }
    errors
}

/// See [`super::validate_update`].
pub(super) fn update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let Some(namespaced) = namespaced(group, kind) else { return Vec::new() };
    let mut errors = metadata::validate(new, namespaced, NameRule::PathSegment);
    errors.extend(metadata::validate_update(new, old));
    errors
}

/// See [`super::validate_status`].
pub(super) fn status(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    update(group, kind, new, old)
}
