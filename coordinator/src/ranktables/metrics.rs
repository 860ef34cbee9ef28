//! What the ranktable controller counts. The first three have the seed's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Why a table was not made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Lower case, with dashes.
    pub reason: &'static str,
}

/// A part of the way of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Part {
    /// `wait`, `make`, `record` or `hand-out`.
    pub part: &'static str,
}

/// From the last piece of input to the moment when making begins.
pub const WAIT: Part = Part { part: "wait" };
/// Assembled, rendered, packed.
pub const MAKE: Part = Part { part: "make" };
/// The record is written.
pub const RECORD: Part = Part { part: "record" };
/// From the record's write to the last agent's queue.
pub const HAND_OUT: Part = Part { part: "hand-out" };

/// Something to be counted or measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A table is begun, so long after the last piece of its input.
    Waited(Duration),
    /// A table could not be made, for this reason.
    Failed(&'static str),
    /// A record was written.
    RecordWritten,
    /// A table was made and recorded.
    Published {
        /// How long it took to make.
        made: Duration,
        /// How long it took to write the record.
        recorded: Duration,
    },
    /// The table is in the queues of all agents.
    HandedOut {
        /// So long after its record was written.
        recorded: Duration,
        /// So long after its input was complete.
        whole: Duration,
    },
    /// Every pod has the table, so long after its input was complete.
    Delivered(Duration),
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// From complete input to a packed table.
    pub generation: Histogram,
    /// Tables that were not made.
    pub errors: Family<Reason, Counter>,
    /// Writes of records.
    pub updates: Counter,
    /// From complete input to the queues of all agents.
    pub handout: Histogram,
    /// The same in parts.
    pub parts: Family<Part, Histogram>,
    /// From complete input to the last agent's word that the file is there.
    pub delivery: Histogram,
    /// Events that were not written.
    pub dropped_events: Counter,
}

// === impl Metrics ===

impl Metrics {
    /// Counts or measures.
    pub fn add(&self, measure: Measure) {
        match measure {
            Measure::Waited(time) => self.took(WAIT, time),
            Measure::Failed(reason) => drop(self.errors.get_or_create(&Reason { reason }).inc()),
            Measure::RecordWritten => drop(self.updates.inc()),
            Measure::Published { made, recorded } => {
                self.generation.observe(made.as_secs_f64());
                self.took(MAKE, made);
                self.took(RECORD, recorded);
            }
            Measure::HandedOut { recorded, whole } => {
                self.took(HAND_OUT, recorded);
                self.handout.observe(whole.as_secs_f64());
            }
            Measure::Delivered(time) => self.delivery.observe(time.as_secs_f64()),
        }
    }

    fn took(&self, part: Part, time: Duration) {
        self.parts.get_or_create(&part).observe(time.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            generation: Histogram::new(exponential_buckets(0.0005, 2.0, 14)),
            errors: Family::default(),
            updates: Counter::default(),
            handout: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            parts: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.00025, 2.0, 16))
            }),
            delivery: Histogram::new(exponential_buckets(0.002, 2.0, 16)),
            dropped_events: Counter::default(),
        }
    }
}

impl Metrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "ranktable_generation_duration",
            "From complete input to a table that can be sent",
            Unit::Seconds,
            self.generation.clone(),
        );
        registry.register(
            "ranktable_generation_errors",
            "Tables that could not be made",
            self.errors.clone(),
        );
        registry.register(
            "ranktable_configmap_updates",
            "Writes of ranktable ConfigMaps",
            self.updates.clone(),
        );
        let own = registry.sub_registry_with_prefix("muster");
        own.register_with_unit(
            "ranktable_handout_duration",
            "From complete input to the queues of all agents that have a stream",
            Unit::Seconds,
            self.handout.clone(),
        );
        own.register_with_unit(
            "ranktable_part_duration",
            "The same in parts: wait, make, record, hand-out",
            Unit::Seconds,
            self.parts.clone(),
        );
        own.register_with_unit(
            "ranktable_delivery_duration",
            "From complete input to the last agent's word that the file is there",
            Unit::Seconds,
            self.delivery.clone(),
        );
        own.register(
            "ranktable_dropped_events",
            "Events about rank groups that could not be written",
            self.dropped_events.clone(),
        );
    }
}
