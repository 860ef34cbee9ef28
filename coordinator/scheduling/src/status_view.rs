//! What can be asked about scheduling: the last cycle's decisions, and the configuration that is in force.

use std::sync::Arc;

use muster_scheduler::decisions::Decisions;
use muster_scheduler_state::live::InForce;
use parking_lot::Mutex;
use serde::Serialize;

/// What can be asked. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct StatusView {
    decisions: Arc<Mutex<Arc<Decisions>>>,
    in_force: Arc<Mutex<Option<Arc<InForce>>>>,
}

/// Which configuration is in force, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Where it is from.
    pub source: String,
    /// The field that keeps pods from being placed, if one does.
    pub paused: Option<&'static str>,
    /// Why the shard's newest spec is not the one in force.
    pub problem: Option<String>,
    /// What `kai-config` says and is not obeyed.
    pub ignored: Option<String>,
    /// Actions, in order.
    pub actions: Vec<&'static str>,
    /// Plugins, in order.
    pub plugins: Vec<String>,
}

// === impl StatusView ===

impl StatusView {
    /// What the last cycle decided.
    pub fn last(&self) -> Arc<Decisions> {
        self.decisions.lock().clone()
    }

    /// Which configuration is in force; only a leader knows.
    pub fn configuration(&self) -> Option<Configuration> {
        let now = self.in_force.lock().clone()?;
        Some(Configuration {
            source: now.source.to_string(),
            paused: now.switches.paused,
            problem: now.problem.clone(),
            ignored: now.ignored.clone(),
            actions: now.config.actions.iter().map(|action| action.name()).collect(),
            plugins: now.config.plugins.iter().map(|plugin| plugin.name.clone()).collect(),
        })
    }

    /// Nobody schedules here any more.
    pub fn clear(&self) {
        *self.in_force.lock() = None;
    }

    pub(super) fn obey(&self, in_force: Arc<InForce>) {
        *self.in_force.lock() = Some(in_force);
    }

    pub(super) fn set(&self, decisions: Decisions) {
        *self.decisions.lock() = Arc::new(decisions);
    }
}
