//! Defaults and validation of the kinds that configure admission.

use muster_objects::status::FieldError;
use serde_json::Value;

/// Fills in the defaults.
pub fn default_configuration(object: &mut Value, kind: &str) {
    let _ = (object, kind);
}

/// What is wrong with the configuration.
pub fn validate_configuration(object: &Value, kind: &str) -> Vec<FieldError> {
    let _ = (object, kind);
    Vec::new()
}
