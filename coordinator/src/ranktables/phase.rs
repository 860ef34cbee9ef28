//! Where a rank group stands on the way to its table. Pure.
//!
//! ```mermaid
//! stateDiagram-v2
//!   [*] --> Waiting: a pod names the group
//!   Waiting --> Composing: all pods, devices and the template are known
//!   Composing --> Recording: the table is made
//!   Composing --> Failed: no table can be made of this input
//!   Failed --> Composing: input or template has changed
//!   Failed --> Waiting: a pod or a device is missing
//!   Recording --> Delivering: the generation is recorded
//!   Recording --> Waiting: the record was not written; it is tried again
//!   Waiting --> Delivering: the record holds, such as under a new leader
//!   Delivering --> Published: every pod has the table
//!   Published --> Delivering: a pod lacks it
//!   Delivering --> Composing: the input has changed
//!   Published --> Composing: the input has changed
//!   Delivering --> Waiting: a pod or a device is gone
//!   Published --> Waiting: a pod or a device is gone
//!   Waiting --> [*]: no pod is left
//! ```
//!
//! A generation is in `Recording` until the API server has it, and no agent hears of it before `Delivering`: whoever crashes when,
//! a generation never names two contents.

use std::sync::Arc;

use jiff::Timestamp;
use muster_hub::blob::Blob;
use muster_proto::delivery::Digest;
use tokio::time::Instant;

use super::compose::Composed;
use super::record::Record;

/// A moment, as machines measure it and as people write it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// To measure from.
    pub clock: Instant,
    /// The time of day.
    pub time: Timestamp,
}

/// Where a group stands.
#[derive(Debug)]
pub enum Phase {
    /// Something that the table needs is missing, or the record must be created or emptied first.
    Waiting {
        /// Since when, as far as this coordinator has seen.
        since: Option<Timestamp>,
    },
    /// A task makes the table.
    Composing(Box<Plan>),
    /// A task writes the record of this table.
    Recording {
        /// What was planned; the record without its table.
        plan: Box<Plan>,
        /// The table.
        table: MadeTable,
    },
    /// The record holds, and some pod lacks the table.
    Delivering {
        /// When the last piece of its input came, if this coordinator has made it.
        input_complete: Option<Instant>,
        /// When its record was written, until the first agent is sent the table.
        recorded: Option<Instant>,
    },
    /// The record holds, and every pod has the table.
    Published,
    /// No table can be made of this input with this template.
    Failed {
        /// What was tried.
        attempt: FailedAttempt,
        /// Since when.
        since: Timestamp,
    },
}

/// A generation that is to be made.
#[derive(Debug)]
pub struct Plan {
    /// Its record, without the table.
    pub record: Record,
    /// What it is made from.
    pub source: TableSource,
    /// When the last piece of the input came.
    pub input_complete: Instant,
}

/// What a table is made from, to know it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSource {
    /// Digest of the input.
    pub input: Digest,
    /// Digest of the template.
    pub template: Digest,
}

/// A table that was made.
#[derive(Clone, Debug)]
pub struct MadeTable {
    /// What it says.
    pub composed: Composed,
    /// The same, packed for the wire.
    pub blob: Arc<Blob>,
    /// How long that took.
    pub took: std::time::Duration,
}

/// An attempt that failed, and need not be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// What no table can be made from.
    pub source: TableSource,
    /// Why, for people.
    pub message: String,
}

// === impl Moment ===

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Self { clock: Instant::now(), time: Timestamp::now() }
    }
}

// === impl Phase ===

impl Default for Phase {
    fn default() -> Self {
        Self::Waiting { since: None }
    }
}

impl Phase {
    /// Its name, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "Waiting",
            Self::Composing(_) => "Composing",
            Self::Recording { .. } => "Recording",
            Self::Delivering { .. } => "Delivering",
            Self::Published => "Published",
            Self::Failed { .. } => "Failed",
        }
    }

    /// Since when there is no table of the group as it is.
    pub fn waiting_since(&self) -> Option<Timestamp> {
        match self {
            Self::Waiting { since } => *since,
            Self::Failed { since, .. } => Some(*since),
            _ => None,
        }
    }

    /// When the input of the table that is under way was complete.
    pub fn input_complete(&self) -> Option<Instant> {
        match self {
            Self::Composing(plan) | Self::Recording { plan, .. } => Some(plan.input_complete),
            Self::Delivering { input_complete, .. } => *input_complete,
            Self::Waiting { .. } | Self::Published | Self::Failed { .. } => None,
        }
    }

    /// What failed before.
    pub fn failed_attempt(&self) -> Option<&FailedAttempt> {
        match self {
            Self::Failed { attempt, .. } => Some(attempt),
            _ => None,
        }
    }
}
