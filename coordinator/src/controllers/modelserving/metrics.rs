//! What is counted about ModelServings.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds in seconds.
const SECONDS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0];

/// Which kind of write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Write {
    /// `create`, `update`, `delete`, `status`, `mark`.
    pub verb: &'static str,
    /// The kind.
    pub kind: &'static str,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// In one word.
    pub reason: &'static str,
}

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// ModelServings that are looked after.
    pub servings: Gauge,
    /// Looks.
    pub plans: Counter,
    /// How long a look takes.
    plan: Histogram,
    /// Writes that were done.
    pub writes: Family<Write, Counter>,
    /// Writes that failed, and looks that cannot go on.
    pub errors: Family<Reason, Counter>,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            servings: Gauge::default(),
            plans: Counter::default(),
            plan: Histogram::new(SECONDS),
            writes: Family::default(),
            errors: Family::default(),
        }
    }
}

impl Metrics {
    /// A look took this long.
    pub fn looked(&self, took: Duration) {
        self.plans.inc();
        self.plan.observe(took.as_secs_f64());
    }

    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_modelserving");
        registry.register("objects", "ModelServings that are looked after", self.servings.clone());
        registry.register("plans", "Looks at a ModelServing", self.plans.clone());
        registry.register(
            "plan_duration_seconds",
            "How long it takes to decide what a ModelServing needs",
            self.plan.clone(),
        );
        registry.register("writes", "Writes that were done, by kind", self.writes.clone());
        registry.register(
            "errors",
            "Writes that failed and looks that could not go on, by reason",
            self.errors.clone(),
        );
    }
}
