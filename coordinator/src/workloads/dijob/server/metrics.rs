//! What the DI server counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds in seconds.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Asked {
    /// What it was about.
    pub route: &'static str,
    /// What it was answered.
    pub status: u16,
}

/// What a request was about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Route {
    /// In one word.
    pub route: &'static str,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Replica {
    /// In one word.
    pub role: &'static str,
}

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Requests.
    pub requests: Family<Asked, Counter>,
    duration: Family<Route, Histogram, fn() -> Histogram>,
    /// Pods that were made.
    pub made: Family<Replica, Counter>,
    /// Pods that were deleted.
    pub deleted: Family<Replica, Counter>,
    /// Connections.
    pub connections: Gauge,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(histogram),
            made: Family::default(),
            deleted: Family::default(),
            connections: Gauge::default(),
        }
    }
}

impl Metrics {
    /// A request was answered.
    pub fn answered(&self, route: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&Asked { route, status }).inc();
        self.duration.get_or_create(&Route { route }).observe(took.as_secs_f64());
    }

    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_diserver");
        registry.register("requests", "Requests, by route and status", self.requests.clone());
        let about = "How long requests took";
        registry.register("duration_seconds", about, self.duration.clone());
        registry.register("replicas_created", "Pods that were made, by role", self.made.clone());
        let about = "Pods that were deleted, by role";
        registry.register("replicas_deleted", about, self.deleted.clone());
        registry.register("connections", "Connections", self.connections.clone());
    }
}
