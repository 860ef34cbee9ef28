//! One condition of an object's status.

use serde::{Deserialize, Serialize};

/// One condition, as `metav1.Condition` writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition's type, such as `Available`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// When the status last changed, in RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    /// The generation of the spec that the condition was computed from; 0 is left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
