//! What is said of a watch: once when it fails, once when it works again. Between these it is tried again and again.

use std::time::{Duration, Instant};

use kube::runtime::watcher;
use muster_program::causes;

/// A watch that has failed is tried again after half a minute at most. One that fails later than this has worked in between, though
/// nothing was heard of it: a watch of what does not change is silent.
const ANOTHER: Duration = Duration::from_secs(120);

/// Of one watch.
#[derive(Debug)]
pub struct Words {
    kind: String,
    /// What is wrong, while something is, and when it was seen last.
    said: Option<(String, Instant)>,
}

// === impl Words ===

impl Words {
    /// Of a watch of this kind that has not failed.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), said: None }
    }

    /// Says what is new, if anything is.
    pub fn hear<K>(&mut self, event: &watcher::Result<watcher::Event<K>>, now: Instant) {
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
        let news = !self.said.as_ref().is_some_and(same);
        if news {
            tracing::warn!(kind = %self.kind, reason = "watch", "the API server cannot be followed: {text}");
        }
        self.said = Some((text, now));
        news
    }

    /// The API server has answered; whether that is news.
    fn works(&mut self) -> bool {
        let news = self.said.take().is_some();
        if news {
            tracing::info!(kind = %self.kind, reason = "watch", "the API server is followed again");
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
        let mut words = Words::of("Pod");
        assert!(!words.works());
        assert!(words.failed(&lost("refused"), at(0)));
        assert!(!words.failed(&lost("refused"), at(30)));
        assert!(!words.failed(&lost("refused"), at(100)), "tried again and again");
        assert!(!words.failed(&lost("refused"), at(200)));
        assert!(words.failed(&lost("refused"), at(1000)), "it had worked, in silence");
        assert!(words.failed(&lost("no route"), at(1001)));
        assert!(words.works());
        assert!(!words.works());
        assert!(words.failed(&lost("no route"), at(1002)));
    }
}
