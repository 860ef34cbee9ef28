//! What is counted about DIJobs.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use crate::controllers::modelserving::metrics::{Reason, Write};

/// Bounds in seconds.
const SECONDS: [f64; 9] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0, 10.0];

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Jobs that are looked after.
    pub jobs: Gauge,
    /// Looks.
    pub looks: Counter,
    look: Histogram,
    /// Writes that were done.
    pub writes: Family<Write, Counter>,
    /// Writes that failed, and looks that cannot go on.
    pub errors: Family<Reason, Counter>,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            jobs: Gauge::default(),
            looks: Counter::default(),
            look: Histogram::new(SECONDS),
            writes: Family::default(),
            errors: Family::default(),
        }
    }
}

impl Metrics {
    /// A look took this long, with its writes.
    pub fn looked(&self, took: Duration) {
        self.looks.inc();
        self.look.observe(took.as_secs_f64());
    }

    /// Something was written.
    pub fn wrote(&self, verb: &'static str, kind: &'static str) {
        self.writes.get_or_create(&Write { verb, kind }).inc();
    }

    /// Something failed.
    pub fn failed(&self, reason: &'static str) {
        self.errors.get_or_create(&Reason { reason }).inc();
    }

    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_dijob");
        registry.register("objects", "DIJobs that are looked after", self.jobs.clone());
        registry.register("looks", "Looks at a DIJob", self.looks.clone());
        let about = "How long a look at a DIJob takes, with its writes";
        registry.register("look_duration_seconds", about, self.look.clone());
        registry.register("writes", "Writes that were done, by kind", self.writes.clone());
        let about = "Writes that failed and looks that could not go on, by reason";
        registry.register("errors", about, self.errors.clone());
    }
}
