//! Whether a watch works: logged once when it fails and once when it has recovered. In between it is tried again and again.

use std::time::{Duration, Instant};

use kube::runtime::watcher;
use muster_program::causes;

/// A watch that has failed is tried again after half a minute at most. One that fails later than this has worked in between, though
/// nothing was heard of it: a watch of what does not change is silent.
const ANOTHER: Duration = Duration::from_secs(120);

/// Of one watch.
#[derive(Debug)]
pub struct WatchHealth {
    kind: String,
    /// The error, while there is one, and when it was seen last.
    failure: Option<(String, Instant)>,
}

// === impl WatchHealth ===

impl WatchHealth {
    /// Of a watch of this kind that has not failed.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), failure: None }
    }

    /// Logs what is new, if anything is.
    pub fn observe<K>(&mut self, event: &watcher::Result<watcher::Event<K>>, now: Instant) {
        match event {
            // A listing that begins has not been answered yet.
            Ok(watcher::Event::Init) => {}
            Ok(_) => {
                self.works();
            }
            Err(error) => {
                self.failed(error, now);
            }
        }
    }

    /// It failed; whether that is news.
    fn failed(&mut self, error: &watcher::Error, now: Instant) -> bool {
        let text = causes(error);
        let same = |(said, seen): &(String, Instant)| {
            *said == text && now.saturating_duration_since(*seen) < ANOTHER
        };
        let news = !self.failure.as_ref().is_some_and(same);
        if news {
            tracing::warn!(kind = %self.kind, reason = "watch", "watch failed: {text}");
        }
        self.failure = Some((text, now));
        news
    }

    /// The API server has answered; whether that is news.
    fn works(&mut self) -> bool {
        let news = self.failure.take().is_some();
        if news {
            tracing::info!(kind = %self.kind, reason = "watch", "watch recovered");
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_until_it_is_another_or_over() {
        let lost = |why: &str| watcher::Error::WatchFailed(kube::Error::Service(why.into()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut health = WatchHealth::of("Pod");
        assert!(!health.works());
        assert!(health.failed(&lost("refused"), at(0)));
        assert!(!health.failed(&lost("refused"), at(30)));
        assert!(!health.failed(&lost("refused"), at(100)), "tried again and again");
        assert!(!health.failed(&lost("refused"), at(200)));
        assert!(health.failed(&lost("refused"), at(1000)), "it had worked, in silence");
        assert!(health.failed(&lost("no route"), at(1001)));
        assert!(health.works());
        assert!(!health.works());
        assert!(health.failed(&lost("no route"), at(1002)));
    }
}
