//! What can be asked about groups: for the status page, and for controllers whose objects own groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tokio::sync::watch;

use super::member::GroupKey;
use crate::ranktables::conditions::Condition;

/// How a group stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Pods that take part.
    pub pods: usize,
    /// Of the recorded table; 0 before the first.
    pub generation: u64,
    /// Pods that have it.
    pub delivered: usize,
    /// Pods that should.
    pub receivers: usize,
    /// Whether there is a table of the group as it is.
    pub ready: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, for a person.
    pub message: String,
    /// The same as conditions.
    pub conditions: Vec<Condition>,
}

/// All groups. Copies share them.
#[derive(Clone, Debug)]
pub struct Shown {
    groups: Arc<Mutex<BTreeMap<GroupKey, Arc<GroupStatus>>>>,
    changes: watch::Sender<u64>,
}

// === impl Shown ===

impl Default for Shown {
    fn default() -> Self {
        Self { groups: Arc::default(), changes: watch::channel(0).0 }
    }
}

impl Shown {
    /// All groups, by namespace and name.
    pub fn all(&self) -> Vec<Arc<GroupStatus>> {
        self.groups.lock().values().cloned().collect()
    }

    /// One group.
    pub fn get(&self, key: &GroupKey) -> Option<Arc<GroupStatus>> {
        self.groups.lock().get(key).cloned()
    }

    /// Hears that something has changed.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn set(&self, key: &GroupKey, status: Option<GroupStatus>) {
        let mut groups = self.groups.lock();
        let changed = match status {
            Some(status) if groups.get(key).is_some_and(|known| **known == status) => false,
            Some(status) => {
                groups.insert(key.clone(), Arc::new(status));
                true
            }
            None => groups.remove(key).is_some(),
        };
        drop(groups);
        if changed {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Forgets all of them: another coordinator knows better.
    pub(crate) fn clear(&self) {
        self.groups.lock().clear();
    }
}

/// Counted when somebody asks, so the numbers are those of the page.
impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let groups = Family::<[(&'static str, String); 1], Gauge>::default();
        for group in self.all() {
            groups.get_or_create(&[("reason", group.reason.clone())]).inc();
        }
        let help = "Rank groups by the reason of RanktableReady; the leader knows them";
        let described =
            encoder.encode_descriptor("muster_rank_groups", help, None, MetricType::Gauge)?;
        groups.encode(described)
    }
}
