//! What is there of a TrainJob.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TrainJobStatus {
    /// `Suspended`, `Complete`, `Failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How far each job is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub jobs_status: Vec<JobStatus>,
    /// What the training itself reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::updated()))]
    pub trainer_status: Option<TrainerStatus>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobStatus {
    /// The job.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Ready.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Succeeded.
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Failed.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Active.
    #[schemars(range(min = 0))]
    pub active: i32,
    /// Suspended.
    #[schemars(range(min = 0))]
    pub suspended: i32,
}

/// What the training itself reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainerStatus {
    /// How much is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub progress_percentage: Option<i32>,
    /// How long it will take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub estimated_remaining_seconds: Option<i32>,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub metrics: Option<Vec<Metric>>,
    /// When this was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated_time: Option<Timestamp>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its value, as text.
    #[schemars(length(min = 1, max = 64))]
    pub value: String,
}

// === impl TrainJobStatus ===

impl TrainJobStatus {
    /// Whether a condition holds.
    pub fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// A condition, whether it holds or not.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}
