//! What agents know of their nodes before the node object says it.

use serde::Deserialize;

use super::meta::or_default;

/// What an agent knows of its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// Name of the node.
    pub node: String,
    /// The devices that the node's agent reports.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<InventoryDevice>,
    /// Its place in a super-pod.
    pub super_pod: Option<SuperPodPlace>,
}

/// A device of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryDevice {
    /// Its number on the node.
    pub id: u32,
    /// The resource it counts as, such as `huawei.com/Ascend910`.
    pub resource: String,
    /// Why it must not be used; none if it is well.
    pub fault: Option<String>,
    /// The ring (HCCS) it is in.
    pub ring: Option<u32>,
    /// The clique (NVLink fabric) it is in.
    pub clique: Option<String>,
}

/// A place in a super-pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuperPodPlace {
    /// Number of the super-pod.
    pub id: u32,
    /// Which server of it.
    pub server_index: u32,
    /// How many servers it has; 0 if unknown.
    pub size: u32,
}
