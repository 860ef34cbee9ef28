//! What is counted about the grouping of pods.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What came of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    /// `grouped`, `skipped`, or why it has no group.
    pub outcome: &'static str,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Write {
    /// `create`, `update` or `patch`.
    pub verb: &'static str,
    /// `PodGroup` or `Pod`.
    pub kind: &'static str,
}

/// A read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Read {
    /// `object`, `groups`, `pods` or `kind`.
    pub what: &'static str,
    /// `read`, `absent`, `refused` or `failed`.
    pub outcome: &'static str,
}

/// Counters. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Pods that were looked at.
    pub pods: Family<Outcome, Counter>,
    /// Writes that were done.
    pub writes: Family<Write, Counter>,
    /// Reads.
    pub reads: Family<Read, Counter>,
    /// Events that nobody could be told.
    pub dropped: Counter,
}

// === impl Metrics ===

impl Metrics {
    /// A pod was looked at.
    pub fn saw(&self, outcome: &'static str) {
        self.pods.get_or_create(&Outcome { outcome }).inc();
    }

    /// Something was written.
    pub fn wrote(&self, verb: &'static str, kind: &'static str) {
        self.writes.get_or_create(&Write { verb, kind }).inc();
    }

    /// Something was read.
    pub fn read(&self, what: &'static str, outcome: &'static str) {
        self.reads.get_or_create(&Read { what, outcome }).inc();
    }

    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_grouper");
        let about = "Pods that were looked at, by what came of it";
        registry.register("pods", about, self.pods.clone());
        registry.register("writes", "Writes that were done, by kind", self.writes.clone());
        let about = "Reads of owners, groups and pods, by how they ended";
        registry.register("reads", about, self.reads.clone());
        let about = "Events that were not written because there were too many";
        registry.register("events_dropped", about, self.dropped.clone());
    }
}
