//! What is counted about TrainJobs.

use std::time::Duration;

use muster_runtime::ObjectMetrics;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds in seconds.
const SECONDS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0];

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Jobs, writes, errors.
    pub objects: ObjectMetrics,
    decide: Histogram,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self { objects: ObjectMetrics::default(), decide: Histogram::new(SECONDS) }
    }
}

impl Metrics {
    /// It has taken so long to decide.
    pub fn decided(&self, took: Duration) {
        self.decide.observe(took.as_secs_f64());
    }

    /// Adds them to the page of metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.objects.register(registry, "muster_trainjob", "TrainJobs").register(
            "decide_duration_seconds",
            "How long it takes to decide what a TrainJob needs",
            self.decide.clone(),
        );
    }
}
