//! How annotations fare, in numbers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Seconds; the goal is milliseconds, an API that is away shows at the end.
const BUCKETS: [f64; 12] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

/// Counts of writes and the time they take. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    results: Family<Labels, Counter>,
    latency: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

// === impl Metrics ===

impl Metrics {
    /// New metrics, registered under their names.
    pub fn register(registry: &mut Registry) -> Self {
        let results = Family::default();
        let help = "Annotations sent to the API, by what became of them";
        registry.register("annotations", help, results.clone());
        let latency = Histogram::new(BUCKETS);
        let help = "From the moment that a pod's devices are known to its annotation";
        registry.register_with_unit("annotation_latency", help, Unit::Seconds, latency.clone());
        Self { results, latency }
    }

    /// How many writes ended so.
    pub fn written(&self, result: &'static str) -> u64 {
        self.results.get_or_create(&Labels { result }).get()
    }

    pub(super) fn count(&self, result: &'static str) {
        self.results.get_or_create(&Labels { result }).inc();
    }

    pub(super) fn took(&self, time: Duration) {
        self.latency.observe(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_dashboards_use() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.count("applied");
        metrics.took(Duration::from_millis(3));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("annotations_total{result=\"applied\"} 1"), "{text}");
        assert!(text.contains("annotation_latency_seconds_count 1"), "{text}");
        assert_eq!(metrics.written("applied"), 1);
    }
}
