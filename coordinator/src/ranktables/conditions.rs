//! The conditions of a rank group: their types and reasons, what they say, and when a change is worth a write. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::delivery::DeliveryStatus;
use super::group::{RankGroup, seconds};
use super::member::Home;
use super::readiness::{Action, NextStep, Readiness};

/// How long a group must wait for something before its record says so.
const SETTLED: Duration = Duration::from_secs(1);

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

pub use muster_kube::Condition;

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

// === impl RankGroup ===

impl RankGroup {
    /// The conditions as they are.
    pub(super) fn conditions(
        &self,
        next: &NextStep,
        status: Option<&DeliveryStatus>,
        late: bool,
        now: Timestamp,
    ) -> Vec<Condition> {
        let (mut list, text) = (self.recorded_conditions(), seconds(now));
        let Readiness { ready, reason, message } = &next.readiness;
        set(&mut list, RANKTABLE_READY, *ready, reason, message, &text);
        if let Some(status) = status {
            let reason = match () {
                () if status.is_complete() => reason::DELIVERED,
                () if late => reason::LATE,
                () => reason::DELIVERING,
            };
            let message = status.message(late);
            set(&mut list, RANKTABLE_DELIVERED, status.is_complete(), reason, &message, &text);
        }
        list
    }

    /// The conditions of a generation that nobody has yet.
    pub(super) fn announced(&self, generation: u64, now: Timestamp) -> Vec<Condition> {
        let (mut list, now) = (self.recorded_conditions(), seconds(now));
        let all = self.live().filter(|member| member.home != Home::None).count();
        let message = format!("generation {generation}, {} pods", self.live().count());
        set(&mut list, RANKTABLE_READY, true, reason::PUBLISHED, &message, &now);
        let message = format!("0 of {all} pods have generation {generation}");
        set(&mut list, RANKTABLE_DELIVERED, false, reason::DELIVERING, &message, &now);
        list
    }

    fn recorded_conditions(&self) -> Vec<Condition> {
        self.record().map(|record| record.conditions.clone()).unwrap_or_default()
    }

    /// Whether these conditions are worth a write: a status or a reason has changed.
    pub(super) fn is_news(&self, next: &NextStep, list: &[Condition]) -> bool {
        let Some(record) = self.record() else { return false };
        // While something is being written this would be old at once.
        if matches!(next.action, Action::Create | Action::Blank | Action::Compose { .. })
            || record.foreign
        {
            return false;
        }
        let written = |list: &[Condition]| -> Vec<(String, String, String)> {
            // A message with numbers that change from moment to moment is not worth a write of its own; what is
            // written holds those of the moment.
            let message = |one: &Condition| match one.reason.as_str() {
                reason::DELIVERED
                | reason::GENERATION_FAILED
                | reason::TEMPLATE_INVALID
                | reason::INVALID_MARKS => one.message.clone(),
                _ => String::new(),
            };
            list.iter().map(|one| (one.status.clone(), one.reason.clone(), message(one))).collect()
        };
        written(list) != written(&record.conditions)
    }

    /// While pods come, say what they hold and get their table, each of these steps is over in a moment: only one that
    /// lasts is worth a write of its own. When it has lasted long enough; none: at once.
    pub(super) fn settled_at(&self, next: &NextStep, delivering: bool) -> Option<Timestamp> {
        const PASSING: [&str; 3] =
            [reason::WAITING_FOR_PODS, reason::WAITING_FOR_DEVICES, reason::WAITING_FOR_ADDRESSES];
        let since = match &next.readiness {
            readiness if !readiness.ready && PASSING.contains(&readiness.reason) => {
                self.phase.waiting_since()
            }
            readiness if readiness.ready && delivering => self.recorded.since,
            _ => None,
        };
        since?.checked_add(SETTLED).ok()
    }
}
