//! Conditions: their types and reasons, and how one changes.

use serde::{Deserialize, Serialize};

/// A table was made from all pods of the group.
pub const RANKTABLE_READY: &str = "RanktableReady";
/// Every pod of the group can read the table.
pub const RANKTABLE_DELIVERED: &str = "RanktableDelivered";

/// One condition, as Kubernetes writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for a person.
    pub message: String,
    /// Since when the status is what it is, in RFC 3339.
    pub last_transition_time: String,
}

/// Puts a condition among others. The time stays if the status does. Whether anything has changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &str,
) -> bool {
    let status = if status { "True" } else { "False" };
    let new = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now.to_owned(),
    };
    match conditions.iter_mut().find(|known| known.kind == kind) {
        Some(known) => {
            let since = if known.status == new.status {
                known.last_transition_time.clone()
            } else {
                now.to_owned()
            };
            let new = Condition { last_transition_time: since, ..new };
            let changed = *known != new;
            *known = new;
            changed
        }
        None => {
            conditions.push(new);
            true
        }
    }
}
