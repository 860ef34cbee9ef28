//! What is counted about ModelServings.

use std::time::Duration;

use muster_runtime::ObjectMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds in seconds.
const SECONDS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0];

/// Which kind of write, of DIJobs and TrainJobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Write {
    /// `create`, `update`, `delete`, `status`, `mark`.
    pub verb: &'static str,
    /// The kind.
    pub kind: &'static str,
}

/// Why something failed, of DIJobs and TrainJobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// In one word.
    pub reason: &'static str,
}

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Objects, writes and errors.
    pub objects: ObjectMetrics,
    plans: Counter,
    plan_duration: Histogram,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            objects: ObjectMetrics::default(),
            plans: Counter::default(),
            plan_duration: Histogram::new(SECONDS),
        }
    }
}

impl Metrics {
    /// A plan was made, which took this long.
    pub fn planned(&self, took: Duration) {
        self.plans.inc();
        self.plan_duration.observe(took.as_secs_f64());
    }

    /// Adds them to the page of metrics.
    pub fn register(&self, registry: &mut Registry) {
        let registry = self.objects.register(registry, "muster_modelserving", "ModelServings");
        registry.register("plans", "Plans that were made for a ModelServing", self.plans.clone());
        registry.register(
            "plan_duration_seconds",
            "How long it takes to decide what a ModelServing needs",
            self.plan_duration.clone(),
        );
    }
}
