//! The objects as people write them: `diengine.opendilab.org/v1alpha1`.
//!
//! Pod specs stay JSON: whatever a person writes there reaches the pod, also what this version has never heard of.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Its API group.
pub const GROUP: &str = "diengine.opendilab.org";
/// Version of the API.
pub const VERSION: &str = "v1alpha1";
/// Group and version.
pub const API_VERSION: &str = "diengine.opendilab.org/v1alpha1";
/// Kind of the object.
pub const KIND: &str = "DIJob";
/// Name of the definition of DIJobs.
pub const DEFINITION: &str = "dijobs.diengine.opendilab.org";
/// The kind of the aggregators' template.
pub const AGGREGATOR_KIND: &str = "AggregatorConfig";
/// Name of the definition of AggregatorConfigs.
pub const AGGREGATOR_DEFINITION: &str = "aggregatorconfigs.diengine.opendilab.org";

/// A reinforcement-learning job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DIJob {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: Spec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// A word for jobs that belong together; nothing reads it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Priority class of the coordinator, and of all other pods that name none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Which pods go when the job has ended: `Running`, `All`, `None`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clean_pod_policy: String,
    /// Volumes of all pods but aggregators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Template of the job's coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<Replica>,
    /// Template of the collectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<Replica>,
    /// Template of the learners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learner: Option<Replica>,
}

/// How pods of a role look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// Pod template of the replicas.
    #[serde(default)]
    pub template: Template,
}

/// A pod to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// Labels and annotations.
    #[serde(default)]
    pub metadata: TemplateMeta,
    /// The rest, as it is written.
    #[serde(default)]
    pub spec: Map<String, Value>,
}

/// What pods carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMeta {
    /// Labels that the pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations that the pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `Created`, `Running`, `Succeeded`, `Failed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// How it came to that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Pods by role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_status: Option<BTreeMap<String, Counts>>,
}

/// One thing that is so, or was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The phase that the condition is about.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Whether the job is in that phase, `True` or `False`.
    #[serde(default)]
    pub status: String,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was last said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_update_time: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
}

/// Pods of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How many replicas run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active: i32,
    /// How many replicas have succeeded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    /// How many replicas have failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// How aggregators look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregatorConfig {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: AggregatorConfigSpec,
}

/// What is wanted of aggregators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregatorConfigSpec {
    /// Template of the aggregators.
    #[serde(default)]
    pub aggregator: Replica,
}

/// Reads an object; what cannot be read says where and why.
pub fn read<T: for<'de> Deserialize<'de>>(object: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(object)
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

// === impl DIJob ===

impl DIJob {
    /// The job's name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The job's namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The job's `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Namespace and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// Its name as a label says it.
    pub fn label(&self) -> String {
        self.name().replace('/', "-")
    }

    /// Its phase; empty if nobody has looked at it.
    pub fn phase(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.phase)
    }

    /// What makes a thing go when the job goes.
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// Values of `status.phase`.
pub mod phase {
    /// Seen, and its coordinator does not run yet.
    pub const CREATED: &str = "Created";
    /// Its coordinator runs.
    pub const RUNNING: &str = "Running";
    /// Its coordinator has done its work.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Its coordinator has failed.
    pub const FAILED: &str = "Failed";
    /// Reserved; never written.
    pub const UNKNOWN: &str = "Unknown";

    /// Whether a job has ended.
    pub fn is_final(phase: &str) -> bool {
        matches!(phase, SUCCEEDED | FAILED)
    }
}
