//! PodGroup, scheduling.run.ai/v2alpha2: pods that are placed together or not at all, in the dialect of KAI. The
//! coordinator makes them for most workloads; people may write their own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_kube::quantity::QuantityTexts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::crd::{Definition, Names};
use crate::schema;

/// What the file says before the definition.
const HEAD: &str = "\
PodGroup, scheduling.run.ai/v2alpha2: pods that are placed together or not at all, in the dialect of KAI. The
coordinator makes them for most workloads; people may write their own.";

/// Pods that are placed together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodGroup {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: PodGroupSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodGroupStatus>,
}

crate::kind!(
    PodGroup,
    NamespaceResourceScope,
    "PodGroup",
    "scheduling.run.ai",
    "v2alpha2",
    "podgroups"
);

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// How many pods must be placed at once. 0 is any number. Not beside minSubGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// How many of the parts that have no parent must be placed at once. Not beside minMember.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// The queue that pays. It must be a leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The priority class. Below 100 a group may be preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Whether the group may be preempted, whatever its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["preemptible", "non-preemptible"]))]
    pub preemptibility: Option<String>,
    /// How long the group waits before it makes others go, like 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_delay: Option<String>,
    /// How long the group may run with fewer pods than it needs. Below 0 is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_grace_period: Option<String>,
    /// Whether pods say that they cannot be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_unschedulable: Option<bool>,
    /// 1 gives up on a node pool after one try; -1 tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_backoff: Option<i32>,
    /// How near all pods must be to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Parts of the group. They are a tree, by their parents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<SubGroup>,
}

/// How near pods must be to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// The name of the Topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// The level that all pods must share, by label or alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// The level that all pods should share, by label or alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
}

/// A part of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubGroup {
    /// The part. Its pods have the label kai.scheduler/subgroup-name.
    #[schemars(length(min = 1))]
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The part that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub parent: Option<String>,
    /// How many pods must be placed at once. Only of a part that has no parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// How many of its parts must be placed at once. Only of a part that has parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// How near the pods of this part must be to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// What is seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Conditions, one per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodGroupCondition>,
    /// Why the group is not placed, for each node pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduling_conditions: Vec<SchedulingCondition>,
    /// What the group has and asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_status: Option<ResourcesStatus>,
}

/// A condition of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// The type of the condition.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// True, False or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The number of the change; it grows.
    #[serde(rename = "transitionID", default, skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Timestamp>,
}

/// Why a group is not placed on a node pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingCondition {
    /// The type of the condition.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The node pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// True, False or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The number of the change; it grows.
    #[serde(rename = "transitionID", default, skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Timestamp>,
    /// Why, once per kind of reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<UnschedulableReason>,
}

/// One reason why a group is not placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnschedulableReason {
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The numbers behind the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ReasonDetails>,
}

/// The numbers behind a reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonDetails {
    /// The numbers of the queue and the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_details: Option<QueueDetails>,
}

/// What a queue has, and what a group asks of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueDetails {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the queue has been asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub queue_requested_resources: QuantityTexts,
    /// What the queue is due.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub queue_deserved_resources: QuantityTexts,
    /// What the queue has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub queue_allocated_resources: QuantityTexts,
    /// What of it stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub queue_allocated_non_preemptible_resources: QuantityTexts,
    /// What the queue may have at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub queue_resource_limits: QuantityTexts,
    /// What the group asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub pod_group_requested_resources: QuantityTexts,
    /// What of it would stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub pod_group_requested_non_preemptible_resources: QuantityTexts,
}

/// What a group has and asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesStatus {
    /// What its pods have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocated: QuantityTexts,
    /// What of it stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocated_non_preemptible: QuantityTexts,
    /// What its pods ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requested: QuantityTexts,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "scheduling.run.ai",
        version: "v2alpha2",
        kind: "PodGroup",
        plural: "podgroups",
        scope: "Namespaced",
        short: &["pg"],
    };
    let version = json!({"subresources": {"status": {}}, "additionalPrinterColumns": [
        {"name": "Queue", "type": "string", "jsonPath": ".spec.queue"},
        {"name": "Priority", "type": "string", "jsonPath": ".spec.priorityClassName"},
        {"name": "Min", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]});
    let properties =
        json!({"spec": schema::of::<PodGroupSpec>(), "status": schema::of::<PodGroupStatus>()});
    Definition::new(
        HEAD,
        &names,
        "Pods that are placed together or not at all.",
        properties,
        &[],
        version,
    )
}
