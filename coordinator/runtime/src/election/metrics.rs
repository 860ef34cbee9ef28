//! What is counted about who leads.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Lower case, with dashes.
    pub reason: &'static str,
}

/// What is counted about who leads.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// 1 when this coordinator leads.
    pub leader: Gauge,
    /// How often it has renewed the lease.
    pub renewals: Counter,
    /// What went wrong.
    pub errors: Family<Reason, Counter>,
    /// How often it has begun or ceased to lead.
    pub transitions: Counter,
}

// === impl Metrics ===

impl Metrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster");
        registry.register("leader", "1 when this coordinator leads", self.leader.clone());
        registry.register("lease_renewals", "Renewals of the lease", self.renewals.clone());
        registry.register(
            "lease_errors",
            "Requests about the lease that failed",
            self.errors.clone(),
        );
        registry.register(
            "leader_transitions",
            "Times that this coordinator began or ceased to lead",
            self.transitions.clone(),
        );
    }

    /// A request has failed.
    pub fn fail(&self, reason: &'static str) {
        self.errors.get_or_create(&Reason { reason }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_shown() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.fail("late");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "muster_leader 0",
            "muster_lease_renewals_total 0",
            "muster_lease_errors_total{reason=\"late\"} 1",
            "muster_leader_transitions_total 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    }
}
