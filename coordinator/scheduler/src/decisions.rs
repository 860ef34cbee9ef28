//! What a cycle decides, and why.

mod claim;
mod lawful;
mod ledger;
mod outcome;
mod waiting;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    plugin::proportion::UNLIMITED,
    reason::{Eviction, Waiting},
    snapshot::{Dimensions, FIRST_KIND, Quantities},
};

pub use self::{
    claim::{ClaimAllocation, ContainerMapping, ExtendedAllocation, ExtendedRequest},
    ledger::{Attempt, Cause, Ledger},
};

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It gets a node.
    Bind,
    /// It is deleted.
    Evict,
    /// It gets a node as soon as others have left.
    Pipeline,
}

/// What a cycle decided about one pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// What is to be done.
    pub action: Action,
    /// Where it goes, or was; nowhere if it had a promise only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Devices that it shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_groups: Vec<String>,
    /// Devices that its claims get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimAllocation>,
    /// Devices that stand for its extended resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_claim: Option<Box<ExtendedAllocation>>,
    /// Annotations of its bind request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Why it is evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
}

/// A pod when the actions have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// How far it is.
    pub status: &'static str,
    /// Name of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Devices that it shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_groups: Vec<String>,
}

/// Amounts of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Accelerators, of all kinds.
    pub gpu: f64,
    /// Thousandths of processors.
    pub cpu: f64,
    /// Memory in bytes.
    pub memory: f64,
    /// Accelerators by kind, where there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, f64>,
}

/// What a cycle decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decisions {
    /// The decisions, in the order of their pods.
    pub decisions: Vec<Decision>,
    /// Fair shares when the cycle began.
    pub fair_share: BTreeMap<String, Share>,
    /// What keeps groups waiting.
    pub reasons: BTreeMap<String, Waiting>,
    /// What is wrong with groups that could be decided about all the same, and what was taken instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub remarks: BTreeMap<String, Vec<String>>,
    /// Timestamps that groups get.
    pub marks: BTreeMap<String, Marks>,
}

/// Timestamps that a group gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<jiff::Timestamp>,
    /// When it lost a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_eviction: Option<jiff::Timestamp>,
    /// Since when it runs with too few pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<jiff::Timestamp>,
}

// === impl Share ===

impl Share {
    /// Of what queues share.
    pub fn new(of: &Quantities, dimensions: &Dimensions) -> Self {
        let [cpu, memory, gpu] = totals(of, dimensions);
        let amounts = kinds_of(of, dimensions);
        let kinds = match dimensions.kinds() {
            [_] => BTreeMap::new(),
            kinds => kinds.iter().cloned().zip(amounts).collect(),
        };
        Self { gpu, cpu, memory, kinds }
    }
}

/// Processors, memory, and accelerators of all kinds.
pub(crate) fn totals(of: &Quantities, dimensions: &Dimensions) -> [f64; 3] {
    let [cpu, memory, ..] = of;
    // Where one kind has no end, all together have none.
    let endless = kinds_of(of, dimensions).any(|amount| amount == UNLIMITED);
    [*cpu, *memory, if endless { UNLIMITED } else { kinds_of(of, dimensions).sum() }]
}

/// Accelerators of each kind that there is: places of kinds that are not there say nothing.
fn kinds_of(of: &Quantities, dimensions: &Dimensions) -> impl Iterator<Item = f64> {
    of.iter().copied().take(dimensions.shared()).skip(FIRST_KIND)
}
