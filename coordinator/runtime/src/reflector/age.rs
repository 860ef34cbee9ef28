//! How old what is known of the cluster is: when each watch heard something last, and since when it fails.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// That of one watch. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct WatchAge(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    heard: Option<Instant>,
    failing: Option<Instant>,
}

/// Those of a program's watches, by name. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct WatchAges(Arc<Mutex<Vec<(String, WatchAge)>>>);

// === impl WatchAge ===

impl WatchAge {
    /// The API server has said something.
    pub(super) fn heard(&self, now: Instant) {
        *self.0.lock() = State { heard: Some(now), failing: None };
    }

    /// It has failed, perhaps again.
    pub(super) fn failed(&self, now: Instant) {
        self.0.lock().failing.get_or_insert(now);
    }

    fn describe(&self, now: Instant) -> String {
        let State { heard, failing } = *self.0.lock();
        let ago = |at: Instant| now.saturating_duration_since(at).as_secs();
        let heard = heard.map_or_else(
            || "has heard nothing yet".to_owned(),
            |at| format!("heard something {} s ago", ago(at)),
        );
        match failing {
            Some(since) => format!("{heard}, fails for {} s", ago(since)),
            None => heard,
        }
    }
}

// === impl WatchAges ===

impl WatchAges {
    /// One more.
    pub fn add(&self, name: impl Into<String>, age: WatchAge) {
        self.0.lock().push((name.into(), age));
    }

    /// A line for each.
    pub fn describe(&self, now: Instant) -> String {
        let mut text = String::new();
        for (name, age) in self.0.lock().iter() {
            // Writing into a String cannot fail.
            let _written = writeln!(text, "watch {name}: {}", age.describe(now));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_watch_says_when_it_heard_something_and_since_when_it_fails() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (ages, age) = (WatchAges::default(), WatchAge::default());
        ages.add("pods", age.clone());
        assert_eq!(ages.describe(at(0)), "watch pods: has heard nothing yet\n");
        age.heard(at(1));
        age.failed(at(10));
        age.failed(at(20));
        let text = "watch pods: heard something 29 s ago, fails for 20 s\n";
        assert_eq!(ages.describe(at(30)), text);
        age.heard(at(31));
        assert_eq!(ages.describe(at(32)), "watch pods: heard something 1 s ago\n");
    }
}
