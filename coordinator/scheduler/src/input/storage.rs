//! Storage and config maps.

use serde::Deserialize;

use super::{
    LabelSelector, NodeSelector, ResourceList,
    meta::{Meta, or_default},
};
use muster_kube::Quantity;

/// A config map: only that it is there counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Its name.
    pub metadata: Meta,
}

/// A claim of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Its name and owner.
    pub metadata: Meta,
    /// What it asks for.
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpecOfVolume,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub status: VolumeClaimStatus,
}

/// What a claim is made from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeClaimTemplate {
    /// What it asks for.
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpecOfVolume,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpecOfVolume {
    /// The class.
    pub storage_class_name: Option<String>,
    /// The volume it is bound to; empty if none.
    pub volume_name: String,
    /// How much.
    #[serde(deserialize_with = "or_default")]
    pub resources: super::Resources,
}

/// How a claim is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
}

/// A volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Its name and labels.
    pub metadata: Meta,
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub spec: PersistentVolumeSpec,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub status: VolumeClaimStatus,
}

/// What a volume is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// Its class.
    pub storage_class_name: String,
    /// How large it is.
    pub capacity: ResourceList,
    /// From which nodes it is seen.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// Whose it is.
    pub claim_ref: Option<ClaimReference>,
}

/// From which nodes a volume is seen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// One of these.
    pub required: Option<NodeSelector>,
}

/// A claim by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

/// A class of storage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Its name.
    pub metadata: Meta,
    /// Its driver.
    pub provisioner: String,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
}

/// A driver of storage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// Its name.
    pub metadata: Meta,
    /// What it does.
    #[serde(deserialize_with = "or_default")]
    pub spec: CsiDriverSpec,
}

/// What a driver does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether it says how much room it has.
    pub storage_capacity: Option<bool>,
}

/// Room that storage has somewhere.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiCapacity {
    /// Its name.
    pub metadata: Meta,
    /// Of which class.
    pub storage_class_name: String,
    /// For which nodes.
    pub node_topology: Option<LabelSelector>,
    /// How much.
    pub capacity: Option<Quantity>,
    /// The largest volume.
    pub maximum_volume_size: Option<Quantity>,
}
