//! PodDisruptionBudgets: how many pods may go right now. Eviction reads the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use muster_objects::select::LabelSelector;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::cache::{Cache, Key, key_of};
use super::json::{self, stamp};
use super::kind::{BUDGETS, Kind, PODS};
use super::queue::Queue;
use super::rest::{Rest, ignore_missing, status_code};
use super::selection::Selection;

/// Keeps the budgets' status.
pub(crate) struct DisruptionController {
    rest: Rest,
    budgets: Arc<Cache>,
    selection: Mutex<Selection>,
    queue: Arc<Queue<Key>>,
}

/// How many pods there should be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Pods(i64),
    /// It cannot be told.
    Unknown(String),
}

const WORKERS: usize = 2;
const GATHER: Duration = Duration::from_millis(20);
/// How long an eviction that was granted is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_secs(120);

/// An int-or-percentage of a whole; percentages are rounded up.
fn scaled(value: &Value, whole: i64) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (percent * whole + 99).div_euclid(100)
        }
        other => other.as_i64().unwrap_or(0),
    }
}

fn present<'a>(budget: &'a Value, field: &str) -> Option<&'a Value> {
    budget.pointer(&format!("/spec/{field}")).filter(|value| !value.is_null())
}

/// Whether the controllers of the pods must be asked how many there should be.
fn needs_scale(budget: &Value) -> bool {
    present(budget, "maxUnavailable").is_some()
        || present(budget, "minAvailable").is_some_and(Value::is_string)
}

/// The status of a budget.
fn status(budget: &Value, pods: &[Arc<Value>], expected: &Expected, now: Timestamp) -> Value {
    let mut disrupted = Map::new();
    let granted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    for (name, at) in granted.into_iter().flatten() {
        let waits = pods.iter().any(|p| meta::name(p) == name && !meta::is_terminating(p));
        let since = at.as_str().and_then(|at| at.parse::<Timestamp>().ok());
        if waits && since.is_some_and(|since| now.duration_since(since) < PATIENCE) {
            disrupted.insert(name.clone(), at.clone());
        }
    }
    let healthy = pods
        .iter()
        .filter(|p| {
            json::is_true(p, "Ready")
                && !meta::is_terminating(p)
                && !disrupted.contains_key(meta::name(p))
        })
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let generation = json::int(budget, "/metadata/generation").unwrap_or(0);
    let (wanted, whole, allowed, reason, message) = match expected {
        Expected::Unknown(why) => {
            let have = |field: &str| json::int(budget, field).unwrap_or(0);
            (
                have("/status/desiredHealthy"),
                have("/status/expectedPods"),
                0,
                "SyncFailed",
                why.as_str(),
            )
        }
        Expected::Pods(whole) => {
            let wanted = if let Some(value) = present(budget, "maxUnavailable") {
                (whole - scaled(value, *whole)).max(0)
            } else if let Some(value) = present(budget, "minAvailable") {
                scaled(value, *whole)
            } else {
                0
            };
            let allowed = if *whole <= 0 { 0 } else { (healthy - wanted).max(0) };
            let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
            (wanted, *whole, allowed, reason, "")
        }
    };
    let value = if allowed > 0 { "True" } else { "False" };
    let before = json::condition(budget, "DisruptionAllowed");
    let since = before
        .filter(|c| json::text(c, "/status") == value)
        .and_then(|c| c.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| stamp(now));
    let mut new = json!({
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "expectedPods": whole,
        "observedGeneration": generation,
        "conditions": [{
            "type": "DisruptionAllowed",
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }],
    });
    if !disrupted.is_empty() {
        new["disruptedPods"] = disrupted.into();
    }
    new
}

// === impl DisruptionController ===

impl DisruptionController {
    /// Registers with the caches and starts the workers.
    pub fn start(rest: &Rest) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            budgets: rest.cache(&BUDGETS),
            selection: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let pods = rest.cache(&PODS);
        let to = controller.clone();
        controller.budgets.on_change(move |before, after| {
            let Some(budget) = after.or(before) else { return };
            let key = key_of(budget);
            let selector = after.and_then(|budget| match budget.pointer("/spec/selector") {
                // No selector picks nothing, an empty one everything.
                None | Some(Value::Null) => Some(LabelSelector::nothing()),
                some => LabelSelector::from_object(some).ok(),
            });
            to.selection.lock().select(&key, selector);
            to.queue.add(key);
        });
        let to = controller.clone();
        pods.on_change(move |before, after| {
            let touched = to.selection.lock().pod_changed(before, after);
            for key in touched {
                to.queue.add_soon(key, GATHER);
            }
        });
        let started = controller;
        rest.tasks().spawn(async move {
            started.budgets.synced().await;
            pods.synced().await;
            let queue = started.queue.clone();
            queue.serve(WORKERS, "disruption", move |key| {
                let controller = started.clone();
                async move { controller.reconcile(&key).await }
            });
        });
    }

    async fn reconcile(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(budget) = self.budgets.get(&key.0, &key.1) else { return Ok(()) };
        let pods = self.selection.lock().picked(key);
        let expected = match needs_scale(&budget) {
            true => self.expected(&pods).await?,
            false => Expected::Pods(i64::try_from(pods.len()).unwrap_or(i64::MAX)),
        };
        let now = self.rest.clock().now();
        let status = status(&budget, &pods, &expected, now);
        let waits = status.get("disruptedPods").is_some();
        if budget.get("status") != Some(&status) {
            let mut object = Value::clone(&budget);
            object["status"] = status;
            ignore_missing(self.rest.replace(&BUDGETS, &object, "/status").await)?;
        }
        if waits && let Ok(later) = now.saturating_add(PATIENCE) {
            self.queue.add_at(key.clone(), later);
        }
        Ok(())
    }

    /// Sums the scales of the pods' controllers, each once.
    async fn expected(&self, pods: &[Arc<Value>]) -> Result<Expected, kube::Error> {
        let mut scales: BTreeMap<String, i64> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = json::controller(pod) else {
                let text = format!("found no controller ref for pod \"{}\"", meta::name(pod));
                return Ok(Expected::Unknown(text));
            };
            if scales.contains_key(json::text(owner, "/uid")) {
                continue;
            }
            let mut uid = json::text(owner, "/uid").to_owned();
            let mut from = (owner.clone(), None);
            if json::text(owner, "/kind") == "ReplicaSet"
                && let Some(set) = self.object(owner, meta::namespace(pod)).await?
            {
                match json::controller(&set) {
                    // The Deployment above says how many; it is counted once for all its sets.
                    Some(above) if json::text(above, "/kind") == "Deployment" => {
                        scales.insert(uid, 0);
                        uid = json::text(above, "/uid").to_owned();
                        from = (above.clone(), None);
                    }
                    _ => from.1 = json::int(&set, "/spec/replicas"),
                }
            }
            if scales.contains_key(&uid) {
                continue;
            }
            let count = match from.1 {
                Some(count) => Some(count),
                None => self.scale(&from.0, meta::namespace(pod)).await?,
            };
            let Some(count) = count else {
                let kind = json::text(owner, "/kind").to_lowercase();
                let group = json::text(owner, "/apiVersion").rsplit_once('/').map_or("", |g| g.0);
                let text = format!("{kind}s.{group} does not implement the scale subresource");
                return Ok(Expected::Unknown(text));
            };
            scales.insert(uid, count);
        }
        Ok(Expected::Pods(scales.values().sum()))
    }

    fn path(owner: &Value, namespace: &str) -> String {
        let api = json::text(owner, "/apiVersion");
        let (group, version) = api.rsplit_once('/').unwrap_or(("", api));
        let plural = format!("{}s", json::text(owner, "/kind").to_lowercase());
        let kind = Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            plural: plural.into(),
            kind: json::text(owner, "/kind").to_owned().into(),
            namespaced: true,
        };
        kind.path(namespace, json::text(owner, "/name"))
    }

    async fn object(&self, owner: &Value, namespace: &str) -> Result<Option<Value>, kube::Error> {
        found(self.rest.get_path(&Self::path(owner, namespace)).await)
    }

    async fn scale(&self, owner: &Value, namespace: &str) -> Result<Option<i64>, kube::Error> {
        let path = Self::path(owner, namespace) + "/scale";
        let scale = found(self.rest.get_path(&path).await)?;
        Ok(scale.map(|scale| json::int(&scale, "/spec/replicas").unwrap_or(0)))
    }
}

fn found(outcome: Result<Value, kube::Error>) -> Result<Option<Value>, kube::Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(status_code(&error), 404 | 405) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
