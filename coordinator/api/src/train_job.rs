//! TrainJob: one run of a training, by way of a runtime.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metadata::TemplateMetadata;
use crate::schema;
use crate::status::TrainJobStatus;
use crate::{names, schema::pod};
use muster_kube::quantity::QuantityTexts;

/// One run of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainJob {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: TrainJobSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TrainJobStatus>,
}

crate::kind!(
    TrainJob,
    NamespaceResourceScope,
    "TrainJob",
    "trainer.kubeflow.org",
    "v1alpha1",
    "trainjobs"
);

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainJobSpec {
    /// The runtime that it runs on.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable()))]
    pub runtime_ref: RuntimeRef,
    /// What is fetched before the training begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable()))]
    pub initializer: Option<Initializer>,
    /// What this run has of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable()))]
    pub trainer: Option<Trainer>,
    /// Changes of the runtime's template, by who makes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["manager"]))]
    pub runtime_patches: Option<Vec<RuntimePatch>>,
    /// Whether nothing of it may run.
    #[serde(default = "no")]
    pub suspend: Option<bool>,
    /// How long it may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-kubernetes-validations" = schema::immutable()))]
    pub active_deadline_seconds: Option<i64>,
    /// Who works on it.
    #[serde(default = "controller")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = schema::managed_by()))]
    pub managed_by: Option<String>,
}

/// A runtime by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its group.
    #[serde(default = "group")]
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Its kind.
    #[serde(default = "cluster_runtime")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
}

/// What is fetched before the training begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Initializer {
    /// Data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<Source>,
    /// A model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Source>,
}

/// Where something is fetched from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The place: `scheme://...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = schema::storage_uri()))]
    pub storage_uri: Option<String>,
    /// Variables of the container that fetches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::env_list")]
    pub env: Option<Vec<Env>>,
    /// The Secret with what is needed to fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// A Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretRef {
    /// Its name.
    #[serde(default = "nothing")]
    pub name: Option<String>,
}

/// A variable of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Env {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

/// What a run has of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trainer {
    /// The image of the container that trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub image: Option<String>,
    /// Its command. An empty one takes the runtime's away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 1_048_576)), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Option<Vec<String>>,
    /// Its arguments. Empty ones take the runtime's away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 1_048_576)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// Its variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::env_list")]
    pub env: Option<Vec<Env>>,
    /// How many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub num_nodes: Option<i32>,
    /// What each node needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::resources")]
    pub resources_per_node: Option<Resources>,
    /// How many processes each node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::at_least_one("numProcPerNode must be greater than or equal to 1")))]
    pub num_proc_per_node: Option<i32>,
}

/// What a container needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// At most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<QuantityTexts>,
    /// At least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<QuantityTexts>,
    /// Devices that are claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Value>,
}

/// Changes of the runtime's template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePatch {
    /// Who makes them: `acme.example/name`.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = schema::immutable()))]
    pub manager: String,
    /// When they were changed last. The webhook writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub time: Option<Timestamp>,
    /// The changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_runtime_spec: Option<RuntimeSpecPatch>,
}

/// Changes of a runtime's spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeSpecPatch {
    /// Changes of its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplatePatch>,
}

/// Changes of a JobSet's template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplatePatch {
    /// Labels and annotations of the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Changes of its spec, merged as Kubernetes merges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::patch::job_set_spec")]
    pub spec: Option<Value>,
}

// === impl TrainJob ===

impl TrainJob {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether nothing of it may run.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether somebody else works on it.
    pub fn is_foreign(&self) -> bool {
        self.spec.managed_by.as_deref().is_some_and(|by| by != names::CONTROLLER)
    }

    /// Its patches.
    pub fn patches(&self) -> &[RuntimePatch] {
        self.spec.runtime_patches.as_deref().unwrap_or_default()
    }
}

// === impl RuntimeRef ===

impl RuntimeRef {
    /// By what the runtime's kind is looked up: `Kind.group`.
    pub fn key(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match self.api_group.as_deref().unwrap_or_default() {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        }
    }
}

fn no() -> Option<bool> {
    Some(false)
}

fn controller() -> Option<String> {
    Some(names::CONTROLLER.to_owned())
}

fn group() -> Option<String> {
    Some(names::GROUP.to_owned())
}

fn cluster_runtime() -> Option<String> {
    Some(names::CLUSTER_TRAINING_RUNTIME.to_owned())
}

fn nothing() -> Option<String> {
    Some(String::new())
}
