//! What is remembered of one ModelServing.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_modelserving::api::{ModelServing, Spec};
use muster_modelserving::machine::Machine;
use muster_modelserving::step::Later;
use tokio::time::Instant;

use crate::workloads::modelserving::Key;
use crate::workloads::modelserving::observed::{Observed, OwnedChange};
use crate::workloads::modelserving::table_mutator::TableError;
use crate::workloads::modelserving::view::ServingStatus;
use crate::workloads::modelserving::written::WatchedServing;

/// What is remembered of a ModelServing between two reconciles.
pub struct ServingState {
    /// The newest version that was seen.
    pub object: WatchedServing,
    pub machine: Machine,
    pub observed: Observed,
    /// What has happened, and the machine was not told yet.
    pub happened: Vec<OwnedChange>,
    /// What the machine is told later.
    pub timers: Vec<(Instant, Later)>,
    /// Whether the machine has learned from what was there at the start.
    pub is_restored: bool,
    /// The spec that the machine was told last.
    pub spec: Option<Spec>,
    /// What was asked for when the last plan was made.
    pub requested: Option<Requested>,
    /// Which state of the surroundings the last plan was made in.
    pub surroundings: u64,
    /// The machine wants to plan then, whatever happens.
    pub plan_at: Option<Instant>,
    /// The object as it was read last, and of which version.
    pub read: Option<(String, Arc<ModelServing>)>,
    pub unreadable: Option<String>,
    /// What keeps it from its rank tables: an event is recorded once.
    pub table_error: Option<TableError>,
    /// Why the last reconcile has failed.
    pub failure: Option<String>,
    /// What is shown of it.
    pub status: ServingStatus,
}

/// What a person asks for: with the same, nothing is to be planned anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Requested {
    generation: Option<i64>,
    annotations: Option<BTreeMap<String, String>>,
    is_going: bool,
}

// === impl ServingState ===

impl ServingState {
    /// Of one of which nothing else is known.
    pub fn new(key: &Key, object: WatchedServing) -> Self {
        Self {
            object,
            machine: Machine::new(key.shape),
            observed: Observed::default(),
            happened: Vec::new(),
            timers: Vec::new(),
            is_restored: false,
            spec: None,
            requested: None,
            surroundings: 0,
            plan_at: None,
            read: None,
            unreadable: None,
            table_error: None,
            failure: None,
            status: ServingStatus::new(key),
        }
    }

    /// When the next reconcile is due, if nothing changes.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let timers = self.timers.iter().map(|(at, _)| *at);
        timers.chain(self.plan_at).chain(self.observed.overdue_at(now)).min()
    }
}

// === impl Requested ===

impl Requested {
    pub fn of(serving: &ModelServing) -> Self {
        let metadata = &serving.metadata;
        Self {
            generation: metadata.generation,
            annotations: metadata.annotations.clone(),
            is_going: metadata.deletion_timestamp.is_some(),
        }
    }
}
