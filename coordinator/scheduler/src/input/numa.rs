//! What nodes have per NUMA zone.

use serde::Deserialize;

use super::meta::{Meta, or_default};
use muster_kube::Quantity;

/// What a node has per NUMA zone; its name is the node's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourceTopology {
    /// Its name.
    pub metadata: Meta,
    /// Older way to say the kubelet's policy.
    #[serde(deserialize_with = "or_default")]
    pub topology_policies: Vec<String>,
    /// The kubelet's policy and scope.
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<Attribute>,
    /// The zones.
    #[serde(deserialize_with = "or_default")]
    pub zones: Vec<Zone>,
}

/// A name with a value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attribute {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A zone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// `Node` for a NUMA node.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it has.
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<ZoneResource>,
}

/// What a zone has of one thing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ZoneResource {
    /// The thing.
    pub name: String,
    /// In all.
    pub capacity: Quantity,
    /// For pods.
    pub allocatable: Quantity,
    /// Free now.
    pub available: Quantity,
}
