//! Conditions: their types and reasons, and how one changes.

/// A table was made from all pods of the group.
pub const RANKTABLE_READY: &str = "RanktableReady";
/// Every pod of the group can read the table.
pub const RANKTABLE_DELIVERED: &str = "RanktableDelivered";

/// Why a condition is what it is, in one word. `docs/ranktables.md` explains each; a test compares.
pub mod reason {
    /// No pod of the group is there.
    pub const NO_PODS: &str = "NoPods";
    /// The record is being created.
    pub const WAITING: &str = "Waiting";
    /// A pod's marks cannot be read.
    pub const INVALID_MARKS: &str = "InvalidMarks";
    /// Pods of the group have done their work.
    pub const FINISHED: &str = "Finished";
    /// Pods have come or gone, and the last table was taken away.
    pub const CHANGING: &str = "Changing";
    /// Fewer or more pods are there than the group has.
    pub const WAITING_FOR_PODS: &str = "WaitingForPods";
    /// It is not known of every pod what it holds.
    pub const WAITING_FOR_DEVICES: &str = "WaitingForDevices";
    /// The template needs the pods' addresses.
    pub const WAITING_FOR_ADDRESSES: &str = "WaitingForAddresses";
    /// There is no template, or it cannot be used.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// A ConfigMap with the record's name belongs to somebody else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// A table is being made.
    pub const COMPOSING: &str = "Composing";
    /// No table can be made of what is there.
    pub const GENERATION_FAILED: &str = "GenerationFailed";
    /// Something has been missing for too long.
    pub const TIMEOUT: &str = "Timeout";
    /// The table is recorded.
    pub const PUBLISHED: &str = "Published";
    /// The table is on its way.
    pub const DELIVERING: &str = "Delivering";
    /// Every pod should have had the table by now.
    pub const LATE: &str = "Late";
    /// Every pod has the table.
    pub const DELIVERED: &str = "Delivered";

    /// Those of `RanktableReady`.
    pub const READY: [&str; 14] = [
        NO_PODS,
        WAITING,
        NAME_TAKEN,
        INVALID_MARKS,
        FINISHED,
        CHANGING,
        WAITING_FOR_PODS,
        WAITING_FOR_DEVICES,
        WAITING_FOR_ADDRESSES,
        TEMPLATE_INVALID,
        COMPOSING,
        GENERATION_FAILED,
        TIMEOUT,
        PUBLISHED,
    ];
    /// Those that do not get better by themselves.
    pub const STUCK: [&str; 5] =
        [TIMEOUT, TEMPLATE_INVALID, GENERATION_FAILED, INVALID_MARKS, NAME_TAKEN];
    /// Those of `RanktableDelivered`.
    pub const DELIVERY: [&str; 3] = [DELIVERING, LATE, DELIVERED];
}

pub use muster_modelserving::api::Condition;

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
        ..Condition::default()
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
