//! How many tables were delivered, how fast, and why not.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// From a memory volume to a disk that syncs, and orders that wait for a volume.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.04, 0.1, 0.5, 2.0, 10.0];

/// What is counted. Copies share the numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    orders: Family<OrderLabels, Counter>,
    duration: Histogram,
    readable: Histogram,
    bytes: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OrderLabels {
    result: &'static str,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            orders: Family::default(),
            duration: Histogram::new(SECONDS),
            readable: Histogram::new(SECONDS),
            bytes: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Orders to deliver a table, by result: written, already-there, or why not";
        registry.register("deliveries", help, self.orders.clone());
        let help = "Time from an order to its acknowledgement";
        let name = "delivery_duration";
        registry.register_with_unit(name, help, Unit::Seconds, self.duration.clone());
        let help = "Time from an order to the moment when its table can be read";
        let name = "readable_duration";
        registry.register_with_unit(name, help, Unit::Seconds, self.readable.clone());
        let help = "Bytes of tables written into volumes, unpacked";
        registry.register("delivered_bytes", help, self.bytes.clone());
    }

    pub(super) fn count(&self, result: &'static str) {
        self.orders.get_or_create(&OrderLabels { result }).inc();
    }

    pub(super) fn took(&self, time: Duration) {
        self.duration.observe(time.as_secs_f64());
    }

    pub(super) fn wrote(&self, bytes: u64, time: Duration) {
        self.readable.observe(time.as_secs_f64());
        self.bytes.inc_by(bytes);
    }
}
