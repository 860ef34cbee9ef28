//! What the hub counts.

use muster_program::connections::CloseReason;
use muster_proto::delivery::REASONS;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Lower case, with dashes.
    pub reason: String,
}

/// What the hub counts.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Connections, with and without streams.
    pub connections: Gauge,
    /// Connections that were closed because no agent spoke.
    pub idle_connections: Counter,
    /// Connections that were closed or refused so that others have room.
    pub closed_connections: Family<CloseReason, Counter>,
    /// Streams that are welcomed.
    pub peers: Gauge,
    /// Messages that came.
    pub received: Counter,
    /// Messages that went.
    pub sent: Counter,
    /// Tables that were packed: once each, whoever gets them.
    pub packed: Counter,
    /// Bytes of tables that went.
    pub table_bytes: Counter,
    /// Whole inventories that came.
    pub inventories: Counter,
    /// Tables that agents have written.
    pub delivered: Counter,
    /// Streams that were refused or cut off.
    pub refused_streams: Family<Reason, Counter>,
    /// Orders that agents have refused.
    pub refused_orders: Family<Reason, Counter>,
}

// === impl Metrics ===

impl Metrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("muster_hub");
        registry.register("connections", "Connections", self.connections.clone());
        registry.register(
            "idle_connections",
            "Connections closed because no agent spoke",
            self.idle_connections.clone(),
        );
        registry.register(
            "closed_connections",
            "Connections that the hub closed or refused so that others have room",
            self.closed_connections.clone(),
        );
        registry.register("peers", "Agents with a stream", self.peers.clone());
        registry.register("received_messages", "Messages from agents", self.received.clone());
        registry.register("sent_messages", "Messages to agents", self.sent.clone());
        registry.register("packed_tables", "Tables packed to be sent", self.packed.clone());
        registry.register("table_bytes", "Packed bytes of tables sent", self.table_bytes.clone());
        registry.register("inventories", "Inventories received", self.inventories.clone());
        registry.register("delivered_tables", "Tables that agents wrote", self.delivered.clone());
        registry.register(
            "refused_streams",
            "Streams that were refused or cut off",
            self.refused_streams.clone(),
        );
        registry.register(
            "refused_orders",
            "Orders that agents refused",
            self.refused_orders.clone(),
        );
    }

    /// A stream was refused or cut off.
    pub fn refuse_stream(&self, reason: &str) {
        self.refused_streams.get_or_create(&Reason { reason: reason.to_owned() }).inc();
    }

    /// An agent refused an order. What an agent says is not a label until it is known.
    pub fn refuse_order(&self, reason: &str) {
        let reason = if REASONS.contains(&reason) { reason } else { "other" };
        self.refused_orders.get_or_create(&Reason { reason: reason.to_owned() }).inc();
    }
}
