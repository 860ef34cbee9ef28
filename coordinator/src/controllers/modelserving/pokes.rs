//! What the task of a ModelServing is told to look at.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::known::Thing;

/// What a task should look at. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Pokes {
    pending: Arc<Mutex<Pending>>,
    news: Arc<Notify>,
}

/// What is to be looked at.
#[derive(Debug, Default)]
pub struct Pending {
    /// Things that may have changed.
    pub things: BTreeSet<(Thing, String)>,
    /// Whether anything else may have.
    pub plan: bool,
}

// === impl Pokes ===

impl Pokes {
    /// Says what is to be looked at.
    pub fn poke(&self, poke: impl FnOnce(&mut Pending)) {
        poke(&mut self.pending.lock());
        self.news.notify_one();
    }

    /// What was said since it was asked last.
    pub fn take(&self) -> Pending {
        std::mem::take(&mut self.pending.lock())
    }

    /// Returns when something is said.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}
