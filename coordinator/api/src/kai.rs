//! KAI's kinds: queues, pod groups, topologies, bind requests, and the configuration of its scheduler.
//!
//! The types are what the definitions are printed from. The scheduler itself reads objects of these kinds into leaner
//! types of its own, field by field, so that one wrong field costs no object.

pub mod bind_request;
pub mod config;
pub mod pod_group;
pub mod queue;
pub mod scheduling_shard;
pub mod topology;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A condition of a shard or of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KaiCondition {
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
    /// The generation of the spec that the condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Timestamp>,
}
