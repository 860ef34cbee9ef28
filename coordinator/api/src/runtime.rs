//! Runtimes: a JobSet's template, and how its jobs learn and are scheduled.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metadata::TemplateMetadata;
use crate::schema;

/// A runtime of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingRuntime {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default)]
    pub spec: TrainingRuntimeSpec,
}

crate::kind!(
    TrainingRuntime,
    NamespaceResourceScope,
    "TrainingRuntime",
    "trainer.kubeflow.org",
    "v1alpha1",
    "trainingruntimes"
);

/// A runtime of all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterTrainingRuntime {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default)]
    pub spec: TrainingRuntimeSpec,
}

crate::kind!(
    ClusterTrainingRuntime,
    ClusterResourceScope,
    "ClusterTrainingRuntime",
    "trainer.kubeflow.org",
    "v1alpha1",
    "clustertrainingruntimes"
);

/// What a runtime is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TrainingRuntimeSpec {
    /// How its processes find each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::one_policy()))]
    pub ml_policy: Option<MlPolicy>,
    /// How its pods are scheduled together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group_policy: Option<PodGroupPolicy>,
    /// The JobSet.
    #[schemars(extend("minProperties" = 1))]
    #[serde(default)]
    pub template: JobSetTemplate,
}

/// A JobSet to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSetTemplate {
    /// Its labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Its spec: `jobset.x-k8s.io/v1alpha2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::job_set::spec")]
    pub spec: Option<Value>,
}

/// How processes find each other. At most one of the frameworks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MlPolicy {
    /// How many nodes; one if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_nodes: Option<i32>,
    /// PyTorch, by torchrun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchPolicy>,
    /// MPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiPolicy>,
    /// JAX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jax: Option<JaxPolicy>,
    /// XGBoost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xgboost: Option<XgboostPolicy>,
    /// Flux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<FluxPolicy>,
}

/// PyTorch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TorchPolicy {
    /// Who else gets the variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_injection: Option<EnvInjection>,
}

/// Who else gets the variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvInjection {
    /// Containers, by job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["jobName"]))]
    pub targets: Option<Vec<EnvTarget>>,
}

/// Containers of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvTarget {
    /// The job.
    #[schemars(length(min = 1, max = 253))]
    pub job_name: String,
    /// Its containers.
    #[schemars(length(min = 1, max = 8), inner(length(max = 63)), extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = schema::not_node()))]
    pub container_names: Vec<String>,
}

/// MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MpiPolicy {
    /// How many processes each node has.
    #[serde(default = "one")]
    #[schemars(extend("x-kubernetes-validations" = schema::at_least_one("NumProcPerNode in mpiPolicy must be >= 1")))]
    pub num_proc_per_node: Option<i32>,
    /// Whose MPI.
    #[serde(default = "open_mpi")]
    #[schemars(extend("enum" = ["OpenMPI", ""]))]
    pub mpi_implementation: Option<String>,
    /// Where keys are mounted.
    #[serde(default = "ssh_path")]
    #[schemars(length(max = 4096))]
    pub ssh_auth_mount_path: Option<String>,
    /// Whether the launcher trains, too.
    #[serde(default = "no")]
    pub run_launcher_as_node: Option<bool>,
}

/// JAX.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JaxPolicy {}

/// XGBoost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XgboostPolicy {}

/// Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxPolicy {
    /// How many processes each node has.
    #[serde(default = "one")]
    #[schemars(extend("x-kubernetes-validations" = schema::at_least_one("NumProcPerNode in fluxPolicy must be >= 1")))]
    pub num_proc_per_node: Option<i32>,
}

/// How pods are scheduled together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodGroupPolicy {
    /// By the scheduler plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coscheduling: Option<CoschedulingPolicy>,
    /// By Volcano.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volcano: Option<VolcanoPolicy>,
}

/// The scheduler plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoschedulingPolicy {
    /// How long pods wait for each other.
    #[serde(default = "minute")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolcanoPolicy {
    /// How near to each other the pods must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
}

/// How near pods must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTopology {
    /// Whether they must, or should.
    #[serde(default = "hard")]
    #[schemars(extend("enum" = ["hard", "soft"]))]
    pub mode: Option<String>,
    /// How far apart at most.
    #[serde(default = "one_tier")]
    pub highest_tier_allowed: Option<i64>,
}

// === impl MpiPolicy ===

impl Default for MpiPolicy {
    fn default() -> Self {
        Self {
            num_proc_per_node: one(),
            mpi_implementation: open_mpi(),
            ssh_auth_mount_path: ssh_path(),
            run_launcher_as_node: no(),
        }
    }
}

fn one() -> Option<i32> {
    Some(1)
}

fn one_tier() -> Option<i64> {
    Some(1)
}

fn minute() -> Option<i32> {
    Some(60)
}

fn no() -> Option<bool> {
    Some(false)
}

fn open_mpi() -> Option<String> {
    Some("OpenMPI".to_owned())
}

fn ssh_path() -> Option<String> {
    Some("/root/.ssh".to_owned())
}

fn hard() -> Option<String> {
    Some("hard".to_owned())
}
