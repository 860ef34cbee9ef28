//! What is to be done about a group, given everything that is known of it. Pure.
//!
//! ```text
//!   no record ─▶ create it, empty
//!   members change, read by ConfigMap volume ─▶ blank it
//!   pods or devices missing ─▶ wait, and say for what
//!   complete, as recorded ─▶ hand it out to who lacks it
//!   complete, and not what the record was made from ─▶ compose the next generation
//! ```

use std::time::Duration;

use jiff::Timestamp;
use muster_proto::delivery::Digest;

use super::phase::TableSource;
use crate::ranktables::conditions::reason;

mod checks;

/// Times that decide.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// After which a group without a table has failed.
    pub failed: Duration,
    /// After which it is said which pods hold nothing that is known.
    pub missing: Duration,
    /// After which it is said who does not have the table yet.
    pub late: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Wait,
    /// Create the record.
    Create,
    /// Take the table out of the record.
    Blank,
    /// Make and record a table.
    Compose {
        /// Its generation.
        generation: u64,
        /// When its input changed.
        changed: String,
        /// Digest of the pods.
        members: Digest,
        /// What it is made from.
        source: TableSource,
    },
    /// The record holds: who lacks the table gets it.
    HandOut,
}

/// How the making of a table stands: the condition `RanktableReady`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether there is a table of the group as it is.
    pub ready: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for a person.
    pub message: String,
}

/// What is to be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// What.
    pub action: Action,
    /// Why.
    pub readiness: Readiness,
    /// Pods that hold nothing that is known although they have a node, some of them.
    pub missing: Vec<String>,
    /// When to look again, even if nothing changes.
    pub again: Option<Timestamp>,
}

// === impl Timeouts ===

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            failed: Duration::from_secs(600),
            missing: Duration::from_secs(10),
            late: Duration::from_secs(5),
        }
    }
}

// === impl NextStep ===

impl NextStep {
    fn wait(reason: &'static str, message: String) -> Self {
        let readiness = Readiness { ready: false, reason, message };
        Self { action: Action::Wait, readiness, missing: Vec::new(), again: None }
    }

    fn hand_out(reason: &'static str, message: String) -> Self {
        let mut next = Self::wait(reason, message).with(Action::HandOut);
        next.readiness.ready = true;
        next
    }

    fn with(self, action: Action) -> Self {
        Self { action, ..self }
    }

    /// Whether it would be made of what has failed before.
    pub fn is_repeated_failure(&self) -> bool {
        self.readiness.reason == reason::GENERATION_FAILED
    }

    /// Whether somebody must do something: it will not get better by itself.
    pub fn has_failed(&self) -> bool {
        reason::STUCK.contains(&self.readiness.reason)
    }
}

#[cfg(test)]
mod tests;
