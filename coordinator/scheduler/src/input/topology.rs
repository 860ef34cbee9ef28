//! Topologies: which labels make domains, from the coarsest to the finest.

use serde::Deserialize;

use super::meta::{Meta, or_default};

/// A Topology object: levels by node label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// The object's name is the topology's.
    pub metadata: Meta,
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub spec: TopologySpec,
}

/// What a topology is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TopologySpec {
    /// Its levels, the coarsest first.
    #[serde(deserialize_with = "or_default")]
    pub levels: Vec<Level>,
}

/// A level of a topology.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Level {
    /// The label whose value makes a domain.
    pub node_label: String,
    /// Another name of the level.
    pub alias: String,
}
