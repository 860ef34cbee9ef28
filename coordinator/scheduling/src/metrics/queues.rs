//! What queues have and are due, under the names of KAI's queue controller: dashboards read them, and so does whoever asks
//! Prometheus for past use. Only the leader has them, so that nothing is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use muster_kube::quantity::Quantity;
use muster_scheduler::input::{Queue, Quota};
use muster_scheduler_state::status::{Amounts, QueueStatus};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Which {
    queue_name: String,
}

type Amount = Family<Which, Gauge<f64, AtomicU64>>;

/// What queues have and are due. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    info: Amount,
    deserved_gpus: Amount,
    quota_cpu: Amount,
    quota_memory: Amount,
    gpus: Amount,
    cpu: Amount,
    memory: Amount,
    /// Queues that are shown: one that is gone is taken away, the others are never missing for a moment.
    shown: Arc<Mutex<BTreeSet<String>>>,
}

// === impl Queues ===

impl Queues {
    /// All queues as they are now.
    pub fn set(&self, queues: &[Queue], now: &BTreeMap<String, QueueStatus>) {
        let names: BTreeSet<String> = now.keys().cloned().collect();
        let before = std::mem::replace(&mut *self.shown.lock(), names.clone());
        for gone in before.difference(&names) {
            let which = Which { queue_name: gone.clone() };
            for (family, _, _) in self.all() {
                family.remove(&which);
            }
        }
        for (name, status) in now {
            let which = Which { queue_name: name.clone() };
            let put = |family: &Amount, amount: f64| {
                family.get_or_create(&which).set(amount);
            };
            put(&self.info, 1.0);
            let plain = |resource: &str| amount(&status.allocated, |name| name == resource);
            put(&self.gpus, amount(&status.allocated, is_device));
            put(&self.cpu, plain("cpu"));
            put(&self.memory, plain("memory"));
            let quota = queues.iter().find(|queue| queue.metadata.name == *name);
            let Some(quota) = quota.map(|queue| &queue.spec.resources) else { continue };
            let of = |quota: &Quota, unit: f64| match quota.quota {
                without_end if without_end < 0.0 => -1.0,
                quota => quota * unit,
            };
            put(&self.deserved_gpus, of(&quota.gpu, 1.0));
            put(&self.quota_cpu, of(&quota.cpu, 0.001));
            put(&self.quota_memory, of(&quota.memory, 1e6));
        }
    }

    /// Nobody knows here any more.
    pub fn clear(&self) {
        self.shown.lock().clear();
        for (family, _, _) in self.all() {
            family.clear();
        }
    }

    /// Tells a registry of them.
    pub fn register(&self, registry: &mut Registry) {
        for (family, name, help) in self.all() {
            registry.register(name, help, family.clone());
        }
    }

    fn all(&self) -> [(&Amount, &'static str, &'static str); 7] {
        [
            (&self.info, "kai_queue_info", "Queues; the value is always 1"),
            (
                &self.deserved_gpus,
                "kai_queue_deserved_gpus",
                "Devices that a queue is due; -1 is all",
            ),
            (&self.quota_cpu, "kai_queue_quota_cpu_cores", "Cores that a queue is due; -1 is all"),
            (
                &self.quota_memory,
                "kai_queue_quota_memory_bytes",
                "Memory that a queue is due; -1 is all",
            ),
            (&self.gpus, "kai_queue_allocated_gpus", "Devices that a queue's pods have"),
            (&self.cpu, "kai_queue_allocated_cpu_cores", "Cores that a queue's pods have"),
            (&self.memory, "kai_queue_allocated_memory_bytes", "Memory that a queue's pods have"),
        ]
    }
}

fn is_device(name: &str) -> bool {
    name.ends_with("/gpu") || name.starts_with("huawei.com/")
}

fn amount(all: &Amounts, counts: impl Fn(&str) -> bool) -> f64 {
    let counted = all.iter().filter(|(name, _)| counts(name));
    // In thousandths a large memory has no room.
    let number = |amount: Quantity| match amount.units() {
        small if small < 1 << 40 => amount.milli() as f64 / 1000.0,
        large => large as f64,
    };
    counted.map(|(_, amount)| number(*amount)).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queues_are_shown_with_what_they_have_and_are_gone_with_their_queue() {
        let (queues, mut registry) = (Queues::default(), Registry::default());
        queues.register(&mut registry);
        let page = || {
            let mut page = String::new();
            prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
            page
        };
        let amount = |text: &str| Quantity::amount(text).unwrap();
        let allocated = [
            ("huawei.com/Ascend910".to_owned(), amount("8")),
            ("cpu".to_owned(), amount("1500m")),
            ("memory".to_owned(), amount("4Ti")),
        ];
        let status = QueueStatus { allocated: allocated.into(), ..QueueStatus::default() };
        let object = json!({"metadata": {"name": "team"}, "spec": {"resources":
            {"gpu": {"quota": 4}, "cpu": {"quota": -1}, "memory": {"quota": 1000}}}});
        let object: Queue = serde_json::from_value(object).unwrap();
        queues.set(&[object], &[("team".to_owned(), status)].into());
        for line in [
            "kai_queue_allocated_gpus{queue_name=\"team\"} 8.0",
            "kai_queue_allocated_cpu_cores{queue_name=\"team\"} 1.5",
            "kai_queue_allocated_memory_bytes{queue_name=\"team\"} 4398046511104.0",
            "kai_queue_deserved_gpus{queue_name=\"team\"} 4.0",
            "kai_queue_quota_cpu_cores{queue_name=\"team\"} -1.0",
            "kai_queue_quota_memory_bytes{queue_name=\"team\"} 1000000000.0",
        ] {
            assert!(page().contains(line), "{line}\n{}", page());
        }
        queues.set(&[], &BTreeMap::new());
        assert!(!page().contains("team"), "{}", page());
    }
}
