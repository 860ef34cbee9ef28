//! Queue, scheduling.run.ai/v2: a share of the cluster. Queues are a tree; pods are paid for by leaves.

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
Queue, scheduling.run.ai/v2: a share of the cluster. Queues are a tree; pods are paid for by leaves.";

/// A share of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: QueueSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<QueueStatus>,
}

crate::kind!(Queue, ClusterResourceScope, "Queue", "scheduling.run.ai", "v2", "queues");

/// What the queue is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The queue that it is a part of, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_queue: Option<String>,
    /// Higher ones are served first and give last. 100 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub priority: Option<i64>,
    /// How long its pods run before they are preempted, like 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// How long its pods run before they are reclaimed, like 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
    /// What it is due and may have: gpu, cpu, memory, and kinds of accelerators by the name of a whole device, such as huawei.com/Ascend910. It must be there. cpu is in thousandths of cores, memory in millions of bytes; gpu is devices of each kind that is not named, and fractions are allowed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, QueueResource>,
}

/// What a queue is due of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResource {
    /// What the queue is due. -1 is everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number")]
    pub quota: Option<f64>,
    /// What it may have at most. -1 is no limit; without it nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number")]
    pub limit: Option<f64>,
    /// Its weight where the rest is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number")]
    pub over_quota_weight: Option<f64>,
}

/// What is seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Queues that are a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_queues: Vec<String>,
    /// What the queue is due now. -1 is without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<FairShare>,
    /// Conditions, one per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<QueueCondition>,
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

/// What a queue is due now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FairShare {
    /// Thousandths of devices, of all kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_gpu: Option<i64>,
    /// Thousandths of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_cpu: Option<i64>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Thousandths of devices by kind, where the cluster has several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub milli_devices: BTreeMap<String, i64>,
}

/// A condition of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the condition was last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_probe_time: Option<Timestamp>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Timestamp>,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "scheduling.run.ai",
        version: "v2",
        kind: "Queue",
        plural: "queues",
        scope: "Cluster",
        short: &[],
    };
    let version = json!({"subresources": {"status": {}}, "additionalPrinterColumns": [
        {"name": "Priority", "type": "string", "jsonPath": ".spec.priority"},
        {"name": "Parent", "type": "string", "jsonPath": ".spec.parentQueue"},
        {"name": "Children", "type": "string", "jsonPath": ".status.childQueues"},
        {"name": "DisplayName", "type": "string", "jsonPath": ".spec.displayName"},
    ]});
    let properties =
        json!({"spec": schema::of::<QueueSpec>(), "status": schema::of::<QueueStatus>()});
    Definition::new(HEAD, &names, "A share of the cluster.", properties, &[], version)
}
