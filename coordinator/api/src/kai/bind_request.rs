//! BindRequest, scheduling.run.ai/v1alpha2: the scheduler's decision for one pod, until it is bound.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_kube::quantity::QuantityTexts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crd::{Definition, Names};
use crate::schema;

/// What the file says before the definition.
const HEAD: &str = "\
BindRequest, scheduling.run.ai/v1alpha2: the scheduler's decision for one pod, until it is bound.";

/// A decision for one pod, until it is bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BindRequest {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: BindRequestSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BindRequestStatus>,
}

crate::kind!(
    BindRequest,
    NamespaceResourceScope,
    "BindRequest",
    "scheduling.run.ai",
    "v1alpha2",
    "bindrequests"
);

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestSpec {
    /// The pod. It is in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_node: Option<String>,
    /// Regular, Fraction or MigInstance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// Which part of how many devices.
    #[serde(rename = "receivedGPU", default, skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// The shared devices, by the names of their groups.
    #[serde(rename = "selectedGPUGroups", default, skip_serializing_if = "Vec::is_empty")]
    pub selected_gpu_groups: Vec<String>,
    /// How often binding is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Where on the node it is likely to run.
    #[serde(rename = "predictedNUMAZones", default, skip_serializing_if = "Vec::is_empty")]
    pub predicted_numa_zones: Vec<NumaZone>,
    /// Devices of the pod's claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_allocations: Vec<ClaimAllocation>,
    /// Devices of the claim that stands for extended resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_resource_claim_allocation: Option<ExtendedAllocation>,
}

/// Which part of how many devices a pod gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedGpu {
    /// How many devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub count: Option<i64>,
    /// Which part of each of them, such as 0.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<String>,
}

/// What a pod gets of one zone of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NumaZone {
    /// The zone.
    pub zone: String,
    /// How much there.
    #[schemars(schema_with = "schema::quantities")]
    pub amount: QuantityTexts,
}

/// The devices of one claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimAllocation {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As resource.k8s.io says it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::any")]
    pub allocation: Value,
}

/// The devices of the claim that stands for extended resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedAllocation {
    /// As resource.k8s.io says it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::any")]
    pub allocation: Value,
    /// The requests that the claim makes, as resource.k8s.io has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::anything_list")]
    pub device_requests: Vec<Value>,
    /// Which request serves which container, as resource.k8s.io has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::anything_list")]
    pub container_mappings: Vec<Value>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestStatus {
    /// Pending, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_attempts: Option<i32>,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "scheduling.run.ai",
        version: "v1alpha2",
        kind: "BindRequest",
        plural: "bindrequests",
        scope: "Namespaced",
        short: &[],
    };
    let version = json!({"subresources": {"status": {}}, "additionalPrinterColumns": [
        {"name": "Pod", "type": "string", "jsonPath": ".spec.podName"},
        {"name": "Node", "type": "string", "jsonPath": ".spec.selectedNode"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ]});
    let properties = json!({"spec": schema::of::<BindRequestSpec>(), "status": schema::of::<BindRequestStatus>()});
    Definition::new(
        HEAD,
        &names,
        "A decision for one pod, until it is bound.",
        properties,
        &[],
        version,
    )
}
