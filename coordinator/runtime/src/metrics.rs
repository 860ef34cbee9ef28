//! What is counted about controllers: the same for all of them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds of durations in seconds.
const SECONDS: [f64; 10] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0, 10.0];

/// The result of a reconcile that went well.
pub const DONE: &str = "done";

/// The result of a reconcile whose object is gone.
pub const GONE: &str = "gone";

/// The result of a reconcile that panicked.
pub const INTERNAL: &str = "internal";

/// Reconciles of all controllers. Copies share them.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    results: Family<ReconcileResult, Counter>,
    durations: Family<Of, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileResult {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

/// What a controller of one kind counts beside its reconciles. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct ObjectMetrics {
    /// Objects that are known.
    objects: Gauge,
    writes: Family<WriteLabels, Counter>,
    errors: Family<ReasonLabel, Counter>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    verb: &'static str,
    kind: &'static str,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

// === impl ReconcileMetrics ===

impl Default for ReconcileMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        Self { results: Family::default(), durations: Family::new_with_constructor(histogram) }
    }
}

impl ReconcileMetrics {
    /// A reconcile has ended like this after so long.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        self.results.get_or_create(&ReconcileResult { controller, result }).inc();
        self.durations.get_or_create(&Of { controller }).observe(took.as_secs_f64());
    }

    /// How many reconciles have ended like this.
    pub fn count(&self, controller: &'static str, result: &'static str) -> u64 {
        self.results.get_or_create(&ReconcileResult { controller, result }).get()
    }

    /// Adds them to the page of metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_reconcile",
            "Reconciles by controller and result: done, gone, or the reason of a failure",
            self.results.clone(),
        );
        registry.register(
            "muster_reconcile_duration_seconds",
            "How long a reconcile takes, with its writes",
            self.durations.clone(),
        );
    }
}

// === impl ObjectMetrics ===

impl ObjectMetrics {
    /// So many objects are known now.
    pub fn known(&self, count: usize) {
        self.objects.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Something was written.
    pub fn wrote(&self, verb: &'static str, kind: &'static str) {
        self.writes.get_or_create(&WriteLabels { verb, kind }).inc();
    }

    /// A write or a reconcile has failed for this reason.
    pub fn failed(&self, reason: &'static str) {
        self.errors.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts events that could not be recorded.
    pub fn dropped_events(&self) -> Counter {
        self.errors.get_or_create(&ReasonLabel { reason: "events" }).clone()
    }

    /// Adds them to the page of metrics, below a prefix such as `muster_trainjob`; `kinds` is what the objects are called,
    /// such as `TrainJobs`.
    pub fn register<'a>(
        &self,
        registry: &'a mut Registry,
        prefix: &str,
        kinds: &str,
    ) -> &'a mut Registry {
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("objects", format!("{kinds} that are known"), self.objects.clone());
        registry.register("writes", "Writes that were done, by kind", self.writes.clone());
        let about = "Writes that failed and reconciles that could not go on, by reason";
        registry.register("errors", about, self.errors.clone());
        registry
    }
}
