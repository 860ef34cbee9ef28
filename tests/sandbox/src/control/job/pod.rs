//! What a Job wants to know of a pod, read once per change.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use serde_json::Value;

use super::super::json;
use super::names;

/// One pod of a Job.
#[derive(Debug, Clone)]
pub struct JobPod {
    /// Name of the pod.
    pub name: String,
    /// The pod's `metadata.uid`.
    pub uid: String,
    /// The pod's completion index, in an indexed Job.
    pub index: Option<usize>,
    /// The pod's `status.phase`.
    pub phase: Phase,
    /// Whether deletion has begun.
    pub deleting: bool,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Whether it has a node.
    pub bound: bool,
    /// Whether it still has the tracking finalizer, which means that it is not counted yet.
    pub tracked: bool,
    /// Restarts of all its containers.
    pub restarts: i64,
    /// When it ended, as well as can be told.
    pub finished: Timestamp,
    /// Failures of this index before this pod, counted and ignored ones.
    pub failures: (i64, i64),
    /// The whole object.
    pub object: Arc<Value>,
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not all containers have started.
    Pending,
    /// Running, or unknown.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one badly.
    Failed,
}

// === impl JobPod ===

impl JobPod {
    /// Reads a pod.
    pub fn read(object: &Arc<Value>) -> Self {
        let restarts = |list: &str| -> i64 {
            let statuses = json::list(object, list).iter();
            statuses.filter_map(|s| json::int(s, "/restartCount")).sum()
        };
        let count = |key: &str| -> i64 {
            let written = meta::annotation(object, key).and_then(|v| v.parse::<i32>().ok());
            written.filter(|n| *n >= 0).unwrap_or(0).into()
        };
        Self {
            name: meta::name(object).to_owned(),
            uid: meta::uid(object).to_owned(),
            index: meta::annotation(object, names::INDEX).and_then(|v| v.parse().ok()),
            phase: match json::text(object, "/status/phase") {
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                "Running" | "Unknown" => Phase::Running,
                _ => Phase::Pending,
            },
            deleting: meta::is_terminating(object),
            ready: json::is_true(object, "Ready"),
            bound: !json::text(object, "/spec/nodeName").is_empty(),
            tracked: meta::finalizers(object).contains(&names::TRACKING),
            restarts: restarts("/status/initContainerStatuses")
                + restarts("/status/containerStatuses"),
            finished: finished(object),
            failures: (count(names::FAILURES), count(names::IGNORED_FAILURES)),
            object: object.clone(),
        }
    }

    /// Whether all containers have ended.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it runs or may come to run.
    pub fn is_active(&self) -> bool {
        !self.is_over() && !self.deleting
    }

    /// Whether it is on its way out.
    pub fn is_terminating(&self) -> bool {
        !self.is_over() && self.deleting
    }

    /// All failures of its index before it.
    pub fn all_failures(&self) -> i64 {
        self.failures.0 + self.failures.1
    }
}

/// The latest end of the containers; else when it stopped being ready; else when its deletion was
/// asked for; else when it was made.
fn finished(pod: &Value) -> Timestamp {
    let ends: Option<Vec<Timestamp>> = json::list(pod, "/status/containerStatuses")
        .iter()
        .map(|s| json::time(s, "/state/terminated/finishedAt"))
        .collect();
    if let Some(last) = ends.and_then(|ends| ends.into_iter().max()) {
        return last;
    }
    if let Some(ready) = json::condition(pod, "Ready")
        && json::text(ready, "/status") == "False"
        && let Some(since) = json::time(ready, "/lastTransitionTime")
    {
        return since;
    }
    if let Some(gone) = json::time(pod, "/metadata/deletionTimestamp") {
        let grace = json::int(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        return gone.saturating_sub(SignedDuration::from_secs(grace)).unwrap_or(gone);
    }
    json::time(pod, "/metadata/creationTimestamp").unwrap_or_default()
}
