//! Bind requests: decisions of earlier cycles that are on their way.

use serde::Deserialize;

use super::{
    Allocation,
    meta::{Meta, or_default},
};

/// A decision that is on its way.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BindRequest {
    /// Its name and labels.
    pub metadata: Meta,
    /// What was decided.
    #[serde(deserialize_with = "or_default")]
    pub spec: BindRequestSpec,
    /// How far it is.
    #[serde(deserialize_with = "or_default")]
    pub status: BindRequestStatus,
}

/// What was decided.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindRequestSpec {
    /// The pod.
    pub pod_name: String,
    /// Its node.
    pub selected_node: String,
    /// `Regular`, `Fraction` or `MigInstance`.
    pub received_resource_type: String,
    /// How many devices, and how much of each.
    #[serde(rename = "receivedGPU")]
    pub received_gpu: Option<ReceivedGpu>,
    /// Which shared devices.
    #[serde(rename = "selectedGPUGroups", deserialize_with = "or_default")]
    pub selected_gpu_groups: Vec<String>,
    /// Which devices for which claim.
    #[serde(deserialize_with = "or_default")]
    pub resource_claim_allocations: Vec<ClaimAllocation>,
    /// How often it may fail.
    pub backoff_limit: Option<i32>,
}

/// How many devices, and how much of each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceivedGpu {
    /// How many.
    pub count: i64,
    /// How much of each.
    pub portion: String,
}

/// Which devices for which claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimAllocation {
    /// The claim's name in the pod.
    pub name: String,
    /// The devices.
    pub allocation: Option<Allocation>,
}

/// How far a decision is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindRequestStatus {
    /// `Pending`, `Succeeded` or `Failed`.
    pub phase: String,
    /// How often it has failed.
    pub failed_attempts: i32,
}

// === impl BindRequest ===

impl BindRequest {
    /// Whether it has failed for good.
    pub fn is_failed(&self) -> bool {
        let over = |limit| self.status.failed_attempts >= limit;
        self.status.phase == "Failed" && self.spec.backoff_limit.is_none_or(over)
    }
}
