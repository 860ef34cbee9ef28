//! What is wrong right now.
//!
//! Every part of the agent reports here; the status page, the metrics and the log read it. A problem is known by
//! its area and subject (a device, a pod, a file): raising it again only counts, clearing it ends it. One problem
//! never stops anything but its own subject.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

/// How many problems are kept; beyond it the oldest goes.
const MOST: usize = 256;

/// The part of the agent that has a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// Finding Ascend devices.
    Ascend,
    /// Finding NVIDIA devices.
    Nvidia,
    /// Network cards, addresses of the host.
    Network,
    /// Watching directories for changes.
    Watch,
    /// The kubelet's pod-resources socket.
    PodResources,
    /// The kubelet's checkpoint.
    Checkpoint,
    /// The address that names this server.
    ServerId,
    /// Watching pods and the node.
    Pods,
    /// Which pod holds which device.
    Assignment,
    /// Writing annotations of pods.
    Annotate,
    /// The stream to the coordinator.
    Link,
    /// Writing tables into volumes.
    Deliver,
}

/// A problem that lasts, as the page and the log show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Who has it.
    pub area: Area,
    /// What kind it is, for metrics: lower case, with dashes.
    pub reason: &'static str,
    /// The device, pod or file.
    pub subject: String,
    /// What is wrong and what can be done, for a person.
    pub message: String,
    /// Since when, in seconds of the epoch.
    pub since: i64,
    /// How often it was seen since then.
    pub count: u64,
}

/// A problem as the part that found it says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind it is, for metrics: lower case, with dashes.
    pub reason: &'static str,
    /// The device, pod or file.
    pub subject: String,
    /// What is wrong and what can be done, for a person.
    pub message: String,
}

/// All problems. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    open: BTreeMap<(Area, String), Problem>,
    raised: BTreeMap<(Area, &'static str), u64>,
}

// === impl Area ===

impl Area {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Ascend,
        Self::Nvidia,
        Self::Network,
        Self::Watch,
        Self::PodResources,
        Self::Checkpoint,
        Self::ServerId,
        Self::Pods,
        Self::Assignment,
        Self::Annotate,
        Self::Link,
        Self::Deliver,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascend => "ascend",
            Self::Nvidia => "nvidia",
            Self::Network => "network",
            Self::Watch => "watch",
            Self::PodResources => "pod-resources",
            Self::Checkpoint => "checkpoint",
            Self::ServerId => "server-id",
            Self::Pods => "pods",
            Self::Assignment => "assignment",
            Self::Annotate => "annotate",
            Self::Link => "link",
            Self::Deliver => "deliver",
        }
    }
}

impl Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

// === impl Finding ===

impl Finding {
    /// What is wrong with a subject.
    pub fn new(reason: &'static str, subject: impl Into<String>, message: impl Display) -> Self {
        Self { reason, subject: subject.into(), message: message.to_string() }
    }
}

// === impl Problems ===

impl Problems {
    /// Something is wrong. The first time it is logged; later it is only counted.
    pub fn raise(&self, area: Area, finding: Finding) {
        let now = jiff::Timestamp::now().as_second();
        let mut inner = self.inner.lock();
        let Finding { reason, subject, message } = finding;
        let key = (area, subject.clone());
        match inner.open.get_mut(&key) {
            Some(known) if known.reason == reason => {
                known.count += 1;
                known.message = message;
                return;
            }
            _ => {}
        }
        tracing::warn!(area = area.name(), reason, subject, "{message}");
        *inner.raised.entry((area, reason)).or_default() += 1;
        inner.open.insert(key, Problem { area, reason, subject, message, since: now, count: 1 });
        if inner.open.len() > MOST {
            let oldest = inner.open.iter().min_by_key(|(_, problem)| problem.since);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                inner.open.remove(&key);
            }
        }
    }

    /// It is right again.
    pub fn clear(&self, area: Area, subject: &str) {
        let ended = self.inner.lock().open.remove(&(area, subject.to_owned()));
        if let Some(Problem { reason, .. }) = ended {
            tracing::info!(area = area.name(), reason, subject, "solved");
        }
    }

    /// These are all problems of an area; others that it had are solved.
    pub fn replace(&self, area: Area, findings: Vec<Finding>) {
        let known: Vec<String> = {
            let inner = self.inner.lock();
            inner.open.keys().filter(|(its, _)| *its == area).map(|(_, key)| key.clone()).collect()
        };
        for subject in known {
            if !findings.iter().any(|finding| finding.subject == subject) {
                self.clear(area, &subject);
            }
        }
        for finding in findings {
            self.raise(area, finding);
        }
    }

    /// All open problems, by area and subject.
    pub fn list(&self) -> Vec<Problem> {
        self.inner.lock().open.values().cloned().collect()
    }

    /// How many are open in an area.
    pub fn open(&self, area: Area) -> usize {
        self.inner.lock().open.keys().filter(|(its, _)| *its == area).count()
    }

    /// How often each kind was raised, ever.
    pub fn raised(&self) -> Vec<(Area, &'static str, u64)> {
        let inner = self.inner.lock();
        inner.raised.iter().map(|((area, reason), count)| (*area, *reason, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_that_lasts_is_one_problem() {
        let problems = Problems::default();
        for message in ["a", "b"] {
            problems.raise(Area::Ascend, Finding::new("hangs", "npu-smi", message));
        }
        let open = problems.list();
        assert_eq!((open.len(), open[0].count, open[0].message.as_str()), (1, 2, "b"));
        assert_eq!(problems.raised(), [(Area::Ascend, "hangs", 1)]);
        problems.clear(Area::Ascend, "npu-smi");
        assert_eq!(problems.list(), []);
    }

    #[test]
    fn a_new_look_at_an_area_solves_what_is_no_longer_seen() {
        let problems = Problems::default();
        problems.raise(Area::Link, Finding::new("down", "hub", "away"));
        problems
            .replace(Area::Ascend, vec![Finding::new("x", "0", ""), Finding::new("x", "1", "")]);
        problems.replace(Area::Ascend, vec![Finding::new("x", "1", "")]);
        let subjects: Vec<String> = problems.list().into_iter().map(|p| p.subject).collect();
        assert_eq!(subjects, ["1", "hub"]);
    }

    #[test]
    fn problems_are_bounded() {
        let problems = Problems::default();
        for number in 0..2 * MOST {
            problems.raise(Area::Deliver, Finding::new("x", number.to_string(), ""));
        }
        assert_eq!(problems.list().len(), MOST);
    }
}
