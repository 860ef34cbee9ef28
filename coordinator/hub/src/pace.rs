//! How fast one peer may speak. Pure.

use std::time::Duration;

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Counts messages and bytes of one peer, second by second.
#[derive(Debug)]
pub struct Pace {
    most_messages: u32,
    most_bytes: usize,
    since: Instant,
    messages: u32,
    bytes: usize,
}

// === impl Pace ===

impl Pace {
    /// At most so many messages and bytes per second.
    pub fn new(most_messages: u32, most_bytes: usize, now: Instant) -> Self {
        Self { most_messages, most_bytes: most_bytes.max(1), since: now, messages: 0, bytes: 0 }
    }

    /// A message of this size has come. Until when the next one is to wait, if it is.
    pub fn received(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        if now.saturating_duration_since(self.since) >= SECOND {
            (self.since, self.messages, self.bytes) = (now, 0, 0);
        }
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.messages < self.most_messages && self.bytes < self.most_bytes {
            return None;
        }
        // No message is so large that this is more than a few seconds.
        let seconds = u32::try_from(self.bytes / self.most_bytes).unwrap_or(u32::MAX).clamp(1, 60);
        let until = self.since + SECOND * seconds;
        (self.since, self.messages, self.bytes) = (until, 0, 0);
        Some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_too_much_or_too_large_things_is_heard_later() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(3, 1000, start);
        assert_eq!(pace.received(ms(0), 10), None);
        assert_eq!(pace.received(ms(1), 10), None);
        assert_eq!(pace.received(ms(2), 10), Some(ms(1000)), "three messages in a second");
        assert_eq!(pace.received(ms(1000), 999), None);
        assert_eq!(pace.received(ms(1001), 1), Some(ms(2000)), "a thousand bytes in a second");
        assert_eq!(pace.received(ms(2000), 3500), Some(ms(5000)), "one message of three seconds");
        for second in 6..20 {
            assert_eq!(pace.received(ms(second * 1000), 999), None, "no more than is allowed");
        }
    }
}
