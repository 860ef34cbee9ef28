//! The logs of the containers of all simulated nodes, bounded, for `pods/log` to read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Lines kept per container.
pub const LINES: usize = 2_000;

/// A shared handle on the logs.
#[derive(Clone, Debug)]
pub struct Logs {
    rings: Arc<Mutex<HashMap<Key, VecDeque<LogLine>>>>,
    written: Arc<watch::Sender<u64>>,
}

/// One line of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// Without the newline.
    pub text: String,
}

/// Where one container writes.
#[derive(Clone, Debug)]
pub struct LogSink {
    logs: Logs,
    key: Key,
    clock: crate::clock::Clock,
}

type Key = (String, String, String);

// === impl Logs ===

impl Logs {
    /// The kept lines of a container, oldest first; empty when it has none.
    pub fn get(&self, namespace: &str, pod: &str, container: &str) -> Vec<String> {
        self.lines(namespace, pod, container).into_iter().map(|line| line.text).collect()
    }

    /// The same with their times.
    pub fn lines(&self, namespace: &str, pod: &str, container: &str) -> Vec<LogLine> {
        let rings = self.rings.lock();
        rings
            .get(&key(namespace, pod, container))
            .map(|r| r.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Changes with each line of any container: wait on it, then [`Logs::get`] again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Where a container writes.
    pub fn sink(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        clock: crate::clock::Clock,
    ) -> LogSink {
        LogSink { logs: self.clone(), key: key(namespace, pod, container), clock }
    }

    /// Forgets the logs of a pod.
    pub fn forget(&self, namespace: &str, pod: &str) {
        self.rings.lock().retain(|(ns, name, _), _| ns != namespace || name != pod);
    }

    fn push(&self, key: &Key, line: LogLine) {
        let mut rings = self.rings.lock();
        let ring = match rings.get_mut(key) {
            Some(ring) => ring,
            None => rings.entry(key.clone()).or_default(),
        };
        if ring.len() == LINES {
            ring.pop_front();
        }
        ring.push_back(line);
        drop(rings);
        self.written.send_modify(|n| *n += 1);
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self { rings: Arc::default(), written: Arc::new(watch::Sender::new(0)) }
    }
}

// === impl LogSink ===

impl LogSink {
    /// Writes one line.
    pub fn line(&self, text: impl Into<String>) {
        self.logs.push(&self.key, LogLine { at: self.clock.now(), text: text.into() });
    }
}

fn key(namespace: &str, pod: &str, container: &str) -> Key {
    (namespace.to_owned(), pod.to_owned(), container.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_log_keeps_the_last_lines_and_goes_with_its_pod() {
        let logs = Logs::default();
        let sink = logs.sink("ns", "p", "c", Clock::machine());
        for n in 0..=LINES {
            sink.line(n.to_string());
        }
        let lines = logs.get("ns", "p", "c");
        assert_eq!((lines.len(), lines[0].as_str()), (LINES, "1"));
        logs.forget("ns", "p");
        assert!(logs.get("ns", "p", "c").is_empty());
    }
}
