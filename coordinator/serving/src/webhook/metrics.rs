//! What the webhook server counts.

use std::time::Duration;

use muster_program::connections::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds in seconds. The API server waits 5 s for ours.
const BOUNDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 10.0];

/// Labels of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Path {
    /// Its path; `other` if there is none.
    pub path: String,
}

/// A webhook, and how it went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Its path; `other` if there is none.
    pub path: String,
    /// Lower case, with dashes.
    pub outcome: &'static str,
}

/// What the webhook server counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Admission reviews, by path and how they ended.
    pub requests: Family<RequestLabels, Counter>,
    /// How long they took.
    pub duration: Family<Path, Histogram, fn() -> Histogram>,
    /// Connections, those that still shake hands too.
    pub connections: Gauge,
    /// Connections that were closed or refused so that others have room.
    pub closed_connections: Family<CloseReason, Counter>,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BOUNDS);
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(histogram),
            connections: Gauge::default(),
            closed_connections: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_webhook");
        registry.register(
            "requests",
            "Admission reviews, by how they ended",
            self.requests.clone(),
        );
        registry.register(
            "duration_seconds",
            "How long admission reviews took",
            self.duration.clone(),
        );
        registry.register("connections", "Connections", self.connections.clone());
        registry.register(
            "closed_connections",
            "Connections that the server closed or refused so that others have room",
            self.closed_connections.clone(),
        );
    }

    /// How many requests at a path ended so.
    pub fn count(&self, path: &str, outcome: &'static str) -> u64 {
        self.requests.get_or_create(&RequestLabels { path: path.to_owned(), outcome }).get()
    }

    pub(super) fn note(&self, path: &str, outcome: &'static str, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path: path.to_owned(), outcome }).inc();
        let path = Path { path: path.to_owned() };
        self.duration.get_or_create(&path).observe(took.as_secs_f64());
    }
}
