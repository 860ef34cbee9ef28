//! What discovery tells Prometheus.

use std::sync::Arc;
use std::time::Duration;

use muster_proto::device::{Inventory, PortState, Vendor};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Numbers of discovery. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// How often the inventory changed.
    pub changes: Counter,
    devices: Family<DeviceLabels, Gauge>,
    ports: Family<DeviceLabels, Gauge>,
    duration: Family<SourceLabels, Histogram, fn() -> Histogram>,
    known: Arc<parking_lot::Mutex<Vec<DeviceLabels>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeviceLabels {
    vendor: &'static str,
    device: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let buckets = || Histogram::new([0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0]);
        Self {
            changes: Counter::default(),
            devices: Family::default(),
            ports: Family::default(),
            duration: Family::new_with_constructor(buckets),
            known: Arc::default(),
        }
    }
}

impl Metrics {
    /// Makes them visible.
    pub fn register(&self, registry: &mut Registry) {
        let changes = "How often the inventory of the node changed";
        registry.register("inventory_changes", changes, self.changes.clone());
        let devices = "1 for a device that may be used, 0 for a faulty one";
        registry.register("device_usable", devices, self.devices.clone());
        let ports = "1 for a device whose port has a link, 0 for one whose port has none";
        registry.register("device_port_up", ports, self.ports.clone());
        let duration = "How long a look at the hardware took";
        registry.register_with_unit(
            "discovery_duration",
            duration,
            Unit::Seconds,
            self.duration.clone(),
        );
    }

    pub(super) fn took(&self, source: &'static str, time: Duration) {
        self.duration.get_or_create(&SourceLabels { source }).observe(time.as_secs_f64());
    }

    /// Shows these devices and no others.
    pub(super) fn seen(&self, inventory: &Inventory) {
        let mut known = self.known.lock();
        let mut now = Vec::with_capacity(inventory.devices.len());
        for device in &inventory.devices {
            let vendor = match device.vendor {
                Vendor::Ascend => "ascend",
                Vendor::Nvidia => "nvidia",
            };
            let labels = DeviceLabels { vendor, device: device.id };
            self.devices.get_or_create(&labels).set(i64::from(device.health.usable()));
            if device.port == PortState::Unknown {
                self.ports.remove(&labels);
            } else {
                let up = device.port == PortState::Up;
                self.ports.get_or_create(&labels).set(i64::from(up));
            }
            now.push(labels);
        }
        for gone in known.iter().filter(|labels| !now.contains(labels)) {
            self.devices.remove(gone);
            self.ports.remove(gone);
        }
        *known = now;
    }
}
