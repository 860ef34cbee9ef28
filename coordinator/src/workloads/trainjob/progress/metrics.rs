//! What is counted of reports.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How a report ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Status {
    /// The HTTP status.
    pub status: u16,
}

/// What is counted of reports.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Reports.
    pub requests: Family<Status, Counter>,
    /// Connections, those that still shake hands too.
    pub connections: Gauge,
}

// === impl Metrics ===

impl Metrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_reports");
        registry.register("requests", "Reports of trainers", self.requests.clone());
        registry.register("connections", "Connections", self.connections.clone());
    }
}
