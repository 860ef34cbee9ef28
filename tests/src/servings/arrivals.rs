//! When each ModelServing has all its tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;

/// Looks at all records, from now on.
pub struct Arrivals {
    seen: Arc<Mutex<BTreeMap<String, Tables>>>,
    watch: tokio::task::JoinHandle<()>,
}

/// The tables of one ModelServing.
#[derive(Debug, Default)]
struct Tables {
    records: BTreeSet<String>,
    delivered: BTreeSet<String>,
    last: Option<Instant>,
}

// === impl Arrivals ===

impl Arrivals {
    /// Watches the records of a namespace.
    pub fn watch(client: Client, namespace: &str) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, Tables>>> = Arc::default();
        let (own, records) = (seen.clone(), Api::<ConfigMap>::namespaced(client, namespace));
        let watch = tokio::spawn(async move {
            let config = watcher::Config::default().labels("muster.dev/rank-group");
            let changes = watcher(records, config).default_backoff().applied_objects();
            pin_mut!(changes);
            while let Some(change) = changes.next().await {
                if let Ok(map) = change {
                    take(&mut own.lock(), &map);
                }
            }
        });
        Self { seen, watch }
    }

    /// How many tables are delivered.
    pub fn delivered(&self) -> usize {
        self.seen.lock().values().map(|tables| tables.delivered.len()).sum()
    }

    /// When the last table of each came that has so many.
    pub fn whole(&self, tables: usize) -> BTreeMap<String, Instant> {
        let seen = self.seen.lock();
        let whole = seen.iter().filter(|(_, of)| of.delivered.len() == tables);
        whole.filter_map(|(serving, of)| Some((serving.clone(), of.last?))).collect()
    }

    /// From each beginning to its last table, sorted.
    pub fn spread(&self, begun: &BTreeMap<String, Instant>, tables: usize) -> Vec<Duration> {
        let whole = self.whole(tables);
        let times =
            whole.iter().filter_map(|(name, at)| Some(at.duration_since(*begun.get(name)?)));
        let mut times: Vec<Duration> = times.collect();
        times.sort();
        times
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn take(seen: &mut BTreeMap<String, Tables>, map: &ConfigMap) {
    let owners = map.owner_references().iter();
    let Some(owner) = owners.clone().find(|owner| owner.kind == "ModelServing") else { return };
    let tables = seen.entry(owner.name.clone()).or_default();
    tables.records.insert(map.name_any());
    if is_delivered(map) && tables.delivered.insert(map.name_any()) {
        tables.last = Some(Instant::now());
    }
}

fn is_delivered(map: &ConfigMap) -> bool {
    let text = map.annotations().get("muster.dev/ranktable-conditions");
    let list: Vec<Value> =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    list.iter().any(|one| one["type"] == "RanktableDelivered" && one["status"] == "True")
}
