//! Until when a leader may write.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The right to write. Copies share it; it ends by itself when nobody extends it, whatever else hangs.
#[derive(Clone, Debug)]
pub struct Fence {
    epoch: u64,
    until: Arc<Mutex<Option<Instant>>>,
}

/// Somebody else may lead by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease of epoch {epoch} is over: another coordinator may lead")]
pub struct NotLeader {
    /// The epoch that is over.
    pub epoch: u64,
}

// === impl Fence ===

impl Fence {
    /// The right to write in this epoch until then.
    pub fn new(epoch: u64, until: Instant) -> Self {
        Self { epoch, until: Arc::new(Mutex::new(Some(until))) }
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The lease was renewed. What has ended stays ended.
    pub fn extend(&self, until: Instant) {
        let mut known = self.until.lock();
        if known.is_some_and(|known| Instant::now() < known) {
            *known = Some(until);
        }
    }

    /// Nothing may be written any more.
    pub fn end(&self) {
        *self.until.lock() = None;
    }

    /// How long a write that begins now may take.
    pub fn left(&self) -> Result<Duration, NotLeader> {
        let deposed = NotLeader { epoch: self.epoch };
        let until = self.until.lock().ok_or(deposed)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(deposed) } else { Ok(left) }
    }
}
