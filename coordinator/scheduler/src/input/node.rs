//! Nodes.

use serde::Deserialize;

use super::{
    ResourceList, Taint,
    meta::{Meta, or_default},
};

/// A Node object, as far as the scheduler reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Its name and labels.
    pub metadata: Meta,
    /// What is wanted of it.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// What it has.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// No new pods.
    pub unschedulable: bool,
    /// What keeps pods off it.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// What a node has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What pods can have of it.
    pub allocatable: ResourceList,
    /// What is there, also what pods cannot have.
    pub capacity: ResourceList,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// One thing that is so, is not, or is unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

// === impl Node ===

impl Node {
    /// Whether it says that it is well. One that says nothing is not asked.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().all(|one| one.kind != "Ready" || one.status == "True")
    }
}
