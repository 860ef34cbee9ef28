//! What can be asked about scheduling: the last cycle's decisions.

use std::sync::Arc;

use muster_scheduler::decisions::Decisions;
use parking_lot::Mutex;

/// What the last cycle decided. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<Mutex<Arc<Decisions>>>);

// === impl Shown ===

impl Shown {
    /// What the last cycle decided.
    pub fn last(&self) -> Arc<Decisions> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, decisions: Decisions) {
        *self.0.lock() = Arc::new(decisions);
    }
}
