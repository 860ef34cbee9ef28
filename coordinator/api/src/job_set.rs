//! JobSets, as far as they are read. What is written of them comes from a runtime's template and stays JSON.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::status::JobStatus;

/// Jobs that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSet {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: Value,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<JobSetStatus>,
}

crate::kind!(JobSet, NamespaceResourceScope, "JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets");

/// What is there of a JobSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetStatus {
    /// `Completed`, `Failed` and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How often it began anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i32>,
    /// How far each job is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs_status: Vec<ReplicatedJobStatus>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicatedJobStatus {
    /// The job.
    #[serde(default)]
    pub name: String,
    /// Ready.
    #[serde(default)]
    pub ready: i32,
    /// Succeeded.
    #[serde(default)]
    pub succeeded: i32,
    /// Failed.
    #[serde(default)]
    pub failed: i32,
    /// Active.
    #[serde(default)]
    pub active: i32,
    /// Suspended.
    #[serde(default)]
    pub suspended: i32,
}

// === impl JobSet ===

impl JobSet {
    /// Whether nothing of it may run.
    pub fn is_suspended(&self) -> bool {
        self.spec.get("suspend").and_then(Value::as_bool).unwrap_or_default()
    }
}

// === impl ReplicatedJobStatus ===

impl From<&ReplicatedJobStatus> for JobStatus {
    fn from(of: &ReplicatedJobStatus) -> Self {
        Self {
            name: of.name.clone(),
            ready: of.ready,
            succeeded: of.succeeded,
            failed: of.failed,
            active: of.active,
            suspended: of.suspended,
        }
    }
}
