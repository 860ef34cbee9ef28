//! Config, kai.scheduler/v1: what KAI's operator would install. The coordinator reads the one that is called kai-config, and of it
//! what docs/scheduler.md lists: which services are on, and the rules of admission. Images, replicas and the like mean nothing here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::crd::{Definition, Names};
use crate::kai::KaiCondition;
use crate::schema;

/// What the file says before the definition.
const HEAD: &str = "\
Config, kai.scheduler/v1: what KAI's operator would install. The coordinator reads the one that is called kai-config, and of it
what docs/scheduler.md lists: which services are on, and the rules of admission. Images, replicas and the like mean nothing here.";

/// What is switched on and off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ConfigSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ConfigStatus>,
}

crate::kind!(Config, ClusterResourceScope, "Config", "kai.scheduler", "v1", "configs");

/// What differs from the defaults. Fields of KAI that are not listed are kept and mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ConfigSpec {
    /// Where KAI's operator has its Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What all services share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<GlobalConfig>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerConfig>,
    /// What binds pods to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binder: Option<SchedulerConfig>,
    /// What makes PodGroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_grouper: Option<PodGrouperConfig>,
    /// What is changed and refused when pods are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionConfig>,
    /// The Prometheus of KAI's operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusConfig>,
}

/// What all services share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct GlobalConfig {
    /// The label of partitions. kai.scheduler/node-pool without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool_label_key: Option<String>,
    /// The label by which pods and their owners name a queue. kai.scheduler/queue without it; TrainJobs and DIJobs keep that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_label_key: Option<String>,
    /// One of the names that the coordinator serves; any other makes Deployed false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Where Prometheus is, and what it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionConfig>,
}

/// Where Prometheus is, and what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ConnectionConfig {
    /// Where Prometheus is, for shards that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A Secret of the coordinator's namespace with what that Prometheus asks for: token, or username and password; ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_secret_name: Option<String>,
}

/// A service that stops placement while it is off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct SchedulerConfig {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<SchedulerService>,
}

/// Whether pods are placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct SchedulerService {
    /// false: no pod is placed until it is true again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What makes PodGroups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGrouperConfig {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<PodGrouperService>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<PodGrouperArgs>,
}

/// Whether PodGroups are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGrouperService {
    /// false: new pods wait for their group until it is true again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// How PodGroups are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodGrouperArgs {
    /// false: each new pod of a Knative revision is a group of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_schedule_knative: Option<bool>,
}

/// What is changed and refused when pods are created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AdmissionConfig {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<AdmissionService>,
    /// Whether pods may share devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_sharing: Option<bool>,
    /// Whether containers are kept from choosing devices by NVIDIA_VISIBLE_DEVICES.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_nvidia_visible_devices: Option<bool>,
    /// The runtime class of pods that share a device and name none. Empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_fraction_runtime_class_name: Option<String>,
    /// The older name of gpuFractionRuntimeClassName.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_pod_runtime_class_name: Option<String>,
}

/// Whether pods are changed and refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AdmissionService {
    /// false: pods are neither changed nor refused when they are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// The Prometheus of KAI's operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PrometheusConfig {
    /// Whether KAI's operator has a Prometheus of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Where Prometheus is, for shards that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_prometheus_url: Option<String>,
}

/// What the coordinator has made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// Conditions, one per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KaiCondition>,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "kai.scheduler",
        version: "v1",
        kind: "Config",
        plural: "configs",
        scope: "Cluster",
        short: &[],
    };
    let version = json!({"subresources": {"status": {}}, "additionalPrinterColumns": [
        {"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].message"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]});
    let properties =
        json!({"spec": schema::of::<ConfigSpec>(), "status": schema::of::<ConfigStatus>()});
    Definition::new(HEAD, &names, "What is switched on and off.", properties, &[], version)
}
