//! Topology, kai.scheduler/v1alpha1: how near nodes are to each other, by their labels.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::crd::{Definition, Names};
use crate::schema;
use crate::schema::LABEL_KEY;

/// What the file says before the definition.
const HEAD: &str = "\
Topology, kai.scheduler/v1alpha1: how near nodes are to each other, by their labels.";

/// How near nodes are to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: TopologySpec,
}

crate::kind!(Topology, ClusterResourceScope, "Topology", "kai.scheduler", "v1alpha1", "topologies");

/// The levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpec {
    /// Levels, the widest first.
    #[schemars(length(min = 1, max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[schemars(extend("x-kubernetes-validations" = schema::levels_rules()))]
    pub levels: Vec<TopologyLevel>,
}

/// One level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Nodes with the same value of this label are near each other.
    #[schemars(length(min = 1, max = 316))]
    #[schemars(regex(pattern = LABEL_KEY))]
    pub node_label: String,
    /// A shorter word for the level. No other level's, and no label of this topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    #[schemars(regex(pattern = LABEL_KEY))]
    pub alias: Option<String>,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "kai.scheduler",
        version: "v1alpha1",
        kind: "Topology",
        plural: "topologies",
        scope: "Cluster",
        short: &[],
    };
    let version = json!({});
    let properties = json!({"spec": schema::of::<TopologySpec>()});
    Definition::new(
        HEAD,
        &names,
        "How near nodes are to each other.",
        properties,
        &["spec"],
        version,
    )
}
