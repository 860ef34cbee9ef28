//! PodGroups of the three schedulers that know them, as far as they are written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use muster_kube::quantity::QuantityTexts;

macro_rules! pod_group {
    ($(#[$doc:meta])* $name:ident, $spec:ty, $group:literal, $version:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            /// Name, labels, annotations.
            #[serde(default)]
            pub metadata: ObjectMeta,
            /// What is wanted.
            #[serde(default)]
            pub spec: $spec,
            /// What its scheduler says.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub status: Option<Value>,
        }

        crate::kind!($name, NamespaceResourceScope, "PodGroup", $group, $version, "podgroups");
    };
}

pod_group!(
    /// Pods that the scheduler plugins place together.
    CoschedulingPodGroup,
    CoschedulingSpec,
    "scheduling.x-k8s.io",
    "v1alpha1"
);
pod_group!(
    /// Pods that Volcano places together.
    VolcanoPodGroup,
    VolcanoSpec,
    "scheduling.volcano.sh",
    "v1beta1"
);
pod_group!(
    /// Pods that KAI, or Muster, places together.
    KaiPodGroup,
    KaiSpec,
    "scheduling.run.ai",
    "v2alpha2"
);

/// What the scheduler plugins are asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoschedulingSpec {
    /// How many pods must be there at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// What they need together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<QuantityTexts>,
    /// How long they wait for each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// What Volcano is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolcanoSpec {
    /// How many pods must be there at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// What they need together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<QuantityTexts>,
    /// Their queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// How near to each other they must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<crate::runtime::NetworkTopology>,
}

/// What KAI, or Muster, is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KaiSpec {
    /// How many pods must be there at once, where there are no subgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// How many subgroups must be there at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_sub_group: Option<i32>,
    /// Their queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Whether others may take their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<String>,
    /// How near to each other they must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Pods that belong together more closely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<SubGroup>,
}

/// Pods that belong together more closely.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubGroup {
    /// Its name.
    pub name: String,
    /// How many pods must be there at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// The subgroup that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How near to each other its pods must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// How near to each other pods must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// The tree of places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// The level that they must share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// The level that they should share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
}
