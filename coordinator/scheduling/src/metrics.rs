//! What is counted about scheduling.

mod queues;

use std::time::Duration;

use muster_scheduler::decisions::Decisions;
use muster_scheduler_state::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use queues::Queues;

/// Bounds in seconds.
const SECONDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0];

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Result {
    result: &'static str,
}

/// Why groups wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Why {
    reason: String,
}

/// By which policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Policy {
    policy: &'static str,
}

/// Counters. Copies share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    cycle: Histogram,
    bindings: Family<Result, Counter>,
    evictions: Family<Result, Counter>,
    waiting: Family<Why, Gauge>,
    faulted: Gauge,
    restarts: Family<Policy, Counter>,
    reservations: Gauge,
    usage: Family<Result, Counter>,
    usage_missing: Gauge,
    paused: Gauge,
    panics: Counter,
    dropped: Counter,
    queues: Queues,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            cycle: Histogram::new(SECONDS),
            bindings: Family::default(),
            evictions: Family::default(),
            waiting: Family::default(),
            faulted: Gauge::default(),
            restarts: Family::default(),
            reservations: Gauge::default(),
            usage: Family::default(),
            usage_missing: Gauge::default(),
            paused: Gauge::default(),
            panics: Counter::default(),
            dropped: Counter::default(),
            queues: Queues::default(),
        }
    }
}

impl Metrics {
    /// A cycle took this long, and this came of it.
    pub fn cycled(&self, took: Duration, decisions: &Decisions) {
        self.cycle.observe(took.as_secs_f64());
        self.waiting.clear();
        for waiting in decisions.reasons.values() {
            self.waits(&format!("{:?}", waiting.reason));
        }
    }

    /// One group more waits.
    pub fn waits(&self, reason: &str) {
        self.waiting.get_or_create(&Why { reason: reason.to_owned() }).inc();
    }

    /// A binding was tried.
    pub fn bound(&self, outcome: &Outcome) {
        self.bindings.get_or_create(&Result::of(outcome)).inc();
    }

    /// An eviction was tried.
    pub fn evicted(&self, outcome: &Outcome) {
        self.evictions.get_or_create(&Result::of(outcome)).inc();
    }

    /// So many pods stand on something bad.
    pub fn faulted(&self, pods: usize) {
        self.faulted.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// A group is restarted because of a fault.
    pub fn restarts(&self, policy: &'static str) {
        self.restarts.get_or_create(&Policy { policy }).inc();
    }

    /// So many reservation pods hold devices.
    pub fn reserved(&self, count: usize) {
        self.reservations.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Prometheus was asked for past use.
    pub fn asked_for_usage(&self, answered: bool) {
        let result = if answered { "done" } else { "failed" };
        self.usage.get_or_create(&Result { result }).inc();
    }

    /// Whether past use should count and does not.
    pub fn usage_missing(&self, missing: bool) {
        self.usage_missing.set(missing.into());
    }

    /// Whether somebody has switched scheduling off.
    pub fn paused(&self, paused: bool) {
        self.paused.set(paused.into());
    }

    /// Decisions of a cycle panicked so often.
    pub fn panicked(&self, times: u64) {
        self.panics.inc_by(times);
    }

    /// Events that were not written.
    pub fn dropped(&self) -> &Counter {
        &self.dropped
    }

    /// What queues have.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Tells a registry of them.
    pub fn register(&self, registry: &mut Registry) {
        self.queues.register(registry);
        registry.register(
            "muster_scheduler_usage_fetches",
            "Times that Prometheus was asked for past use of queues, by what came of it",
            self.usage.clone(),
        );
        registry.register(
            "muster_scheduler_usage_missing",
            "1 while past use of queues should count and there is no answer that is new enough",
            self.usage_missing.clone(),
        );
        registry.register(
            "muster_scheduler_paused",
            "1 while kai-config keeps the scheduler from placing pods",
            self.paused.clone(),
        );
        registry.register(
            "muster_scheduler_panics",
            "Decisions that panicked; the groups to blame are set aside with the reason DecisionFailed",
            self.panics.clone(),
        );
        registry.register(
            "muster_scheduler_events_dropped",
            "Events of pods that were placed or evicted and were not written: too many waited, or the API server did not answer",
            self.dropped.clone(),
        );
        registry.register(
            "muster_scheduler_cycle_seconds",
            "How long a scheduling cycle thinks",
            self.cycle.clone(),
        );
        registry.register(
            "muster_scheduler_bindings",
            "Bindings of pods that were tried, by what came of them",
            self.bindings.clone(),
        );
        registry.register(
            "muster_scheduler_evictions",
            "Evictions of pods that were tried, by what came of them",
            self.evictions.clone(),
        );
        registry.register(
            "muster_scheduler_waiting_groups",
            "Pod groups that wait, by the reason",
            self.waiting.clone(),
        );
        registry.register(
            "muster_scheduler_faulted_pods",
            "Pods that are affected by a fault: of their device, or of their node",
            self.faulted.clone(),
        );
        registry.register(
            "muster_scheduler_fault_restarts",
            "Groups of which pods were replaced because of a fault, by policy",
            self.restarts.clone(),
        );
        registry.register(
            "muster_scheduler_reservations",
            "Reservation pods: each holds a device for pods that share it",
            self.reservations.clone(),
        );
    }
}

// === impl Result ===

impl Result {
    fn of(outcome: &Outcome) -> Self {
        let result = match outcome {
            Outcome::Done => "done",
            Outcome::Failed(_) => "failed",
            Outcome::Unsure(_) => "unsure",
            Outcome::Lost(_) => "lost",
        };
        Self { result }
    }
}
