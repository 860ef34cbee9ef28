//! The time of the scheduler's loop.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that does not jump: the wall's when it began, and what has passed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Timestamp,
    at: Instant,
}

// === impl Clock ===

impl Clock {
    pub(super) fn new() -> Self {
        Self { began: Timestamp::now(), at: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.at.elapsed()).unwrap_or_default();
        self.began.saturating_add(passed).unwrap_or(self.began)
    }

    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        let after = at.duration_since(self.began);
        self.at + std::time::Duration::try_from(after).unwrap_or_default()
    }
}
