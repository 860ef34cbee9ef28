//! The sandbox's time: the machine's, or one that a test moves by hand.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// Where every part of the sandbox takes the time from. Clones share one time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    Machine,
    Hand(watch::Sender<Timestamp>),
}

// === impl Clock ===

impl Clock {
    /// The machine's time.
    pub fn machine() -> Self {
        Self(Arc::new(Source::Machine))
    }

    /// A time that stands still until [`Clock::advance`] moves it.
    pub fn by_hand(start: Timestamp) -> Self {
        Self(Arc::new(Source::Hand(watch::Sender::new(start))))
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Source::Machine => Timestamp::now(),
            Source::Hand(time) => *time.borrow(),
        }
    }

    /// Now, as Kubernetes writes it in `creationTimestamp`: whole seconds.
    pub fn stamp(&self) -> String {
        seconds(self.now())
    }

    /// Now with microseconds, as in Leases and `events.k8s.io`.
    pub fn stamp_micro(&self) -> String {
        format!("{:.6}", self.now())
    }

    /// Returns when this clock has moved on by `wait`, counted from this call and not from the first poll.
    pub fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send + use<> {
        let clock = self.clone();
        let timer = match &*self.0 {
            Source::Machine => Ok(tokio::time::sleep(wait)),
            Source::Hand(time) => {
                let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
                Err(time.borrow().saturating_add(wait).unwrap_or(Timestamp::MAX))
            }
        };
        async move {
            match timer {
                Ok(timer) => timer.await,
                Err(until) => clock.sleep_until(until).await,
            }
        }
    }

    /// Returns when this clock has reached `time`; at once when it has.
    pub async fn sleep_until(&self, time: Timestamp) {
        match &*self.0 {
            Source::Machine => {
                let wait = Timestamp::now().duration_until(time);
                tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
            }
            Source::Hand(hand) => {
                // The sender lives as long as `self`, so this ends only by reaching the time.
                let mut seen = hand.subscribe();
                let _reached = seen.wait_for(|now| *now >= time).await;
            }
        }
    }

    /// Moves a hand-moved clock forward and wakes everybody whose time has come.
    /// The machine's time is not ours to move; then this does nothing.
    pub fn advance(&self, by: Duration) {
        if let (Source::Hand(time), Ok(by)) = (&*self.0, SignedDuration::try_from(by)) {
            time.send_modify(|now| *now = now.saturating_add(by).unwrap_or(Timestamp::MAX));
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::machine()
    }
}

/// A time in whole seconds, `2026-01-02T03:04:05Z`.
pub fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_hand_moved_clock_reaches_its_time() {
        let clock = Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap());
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep(Duration::from_secs(10)).await;
                clock.stamp()
            }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(6));
        assert_eq!(sleeper.await.unwrap(), "2026-01-02T03:04:15Z");
    }

    #[tokio::test]
    async fn a_sleep_counts_from_the_call_though_nobody_polls_it_yet() {
        let clock = Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap());
        let sleep = clock.sleep(Duration::from_secs(10));
        clock.advance(Duration::from_secs(10));
        tokio::time::timeout(Duration::from_secs(5), sleep).await.unwrap();
    }

    #[test]
    fn stamps_have_the_precision_that_kubernetes_gives_them() {
        let clock = Clock::by_hand("2026-01-02T03:04:05.5Z".parse().unwrap());
        assert_eq!(clock.stamp(), "2026-01-02T03:04:05Z");
        assert_eq!(clock.stamp_micro(), "2026-01-02T03:04:05.500000Z");
    }
}
