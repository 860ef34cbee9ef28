//! Queues and priority classes.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};

use super::meta::{Meta, or_default};
use muster_kube::duration;

use crate::snapshot::{is_kind, kind_of};

/// A queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Its name.
    pub metadata: Meta,
    /// What it may have.
    #[serde(deserialize_with = "or_default")]
    pub spec: QueueSpec,
}

/// What a queue may have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueSpec {
    /// What people call it.
    pub display_name: String,
    /// The queue above it; empty if none.
    pub parent_queue: String,
    /// How much of what.
    #[serde(deserialize_with = "or_default")]
    pub resources: QueueResources,
    /// How important it is; 100 if it does not say.
    pub priority: Option<i64>,
    /// How long its pods run before the queue's own may preempt them.
    #[serde(deserialize_with = "duration::optional")]
    pub preempt_min_runtime: Option<SignedDuration>,
    /// How long its pods run before other queues may reclaim from them.
    #[serde(deserialize_with = "duration::optional")]
    pub reclaim_min_runtime: Option<SignedDuration>,
}

/// How much a queue may have of what.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct QueueResources {
    /// Accelerators of each kind that is not named, in devices.
    #[serde(deserialize_with = "or_default")]
    pub gpu: Quota,
    /// Processors, in thousandths.
    #[serde(deserialize_with = "or_default")]
    pub cpu: Quota,
    /// Memory, in millions of bytes.
    #[serde(deserialize_with = "or_default")]
    pub memory: Quota,
    /// Kinds of accelerators by the name of a whole device, such as `huawei.com/Ascend910`, in devices.
    #[serde(flatten, deserialize_with = "kinds")]
    pub kinds: BTreeMap<String, Quota>,
}

/// How much a queue may have of one thing; -1 is without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    /// What is its own.
    pub quota: f64,
    /// Its weight when what is left is divided.
    pub over_quota_weight: f64,
    /// What it cannot go above.
    pub limit: f64,
}

// === impl QueueResources ===

impl QueueResources {
    /// What it says of a kind by name.
    pub fn of_kind(&self, kind: &str) -> Option<Quota> {
        let mut named = self.kinds.iter();
        named.find(|(name, _)| is_kind(name) && kind_of(name) == kind).map(|(_, quota)| *quota)
    }
}

/// Names that are no kind, and what cannot be read, is passed over as unknown fields are.
fn kinds<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Quota>, D::Error> {
    let all = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
    let read = |(name, value)| Some((name, serde_json::from_value(value).ok()?));
    Ok(all.into_iter().filter(|(name, _)| is_kind(name)).filter_map(read).collect())
}

/// How important something is, by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Its name.
    pub metadata: Meta,
    /// How important.
    pub value: i32,
    /// Whether it is that of pods that name none.
    pub global_default: bool,
}

/// What a queue has used of late, as a part of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Of accelerators.
    pub gpu: f64,
    /// Of processors.
    pub cpu: f64,
    /// Of memory.
    pub memory: f64,
}
