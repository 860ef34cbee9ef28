//! SchedulingShard, kai.scheduler/v1: how pods of one part of the cluster are placed. The coordinator obeys the one that
//! --scheduler-shard names, from the next cycle on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crd::{Definition, Names};
use crate::kai::KaiCondition;
use crate::schema;

/// What the file says before the definition.
const HEAD: &str = "\
SchedulingShard, kai.scheduler/v1: how pods of one part of the cluster are placed. The coordinator obeys the one that
--scheduler-shard names, from the next cycle on.";

/// How pods of one part of the cluster are placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulingShard {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: SchedulingShardSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SchedulingShardStatus>,
}

crate::kind!(
    SchedulingShard,
    ClusterResourceScope,
    "SchedulingShard",
    "kai.scheduler",
    "v1",
    "schedulingshards"
);

/// What differs from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingShardSpec {
    /// Flags of KAI's scheduler without their dashes. Those that mean nothing here are named in the condition Deployed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// Whether nodes are filled one after the other or evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_strategy: Option<PlacementStrategy>,
    /// Nodes, queues and PodGroups with this value of the partition's label belong to the shard; without it those that have no such label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_label_value: Option<String>,
    /// How many jobs of one queue an action tries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::integers")]
    pub queue_depth_per_action: BTreeMap<String, i64>,
    /// How long pods run before they are taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<MinRuntime>,
    /// How much past use counts in fair share. 1 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number")]
    pub k_value: Option<f64>,
    /// Where past use is asked for.
    #[serde(rename = "usageDBConfig", default, skip_serializing_if = "Option::is_none")]
    pub usage_db_config: Option<UsageDbConfig>,
    /// How long the search for pods that make room may take.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::any")]
    pub scenario_search_budgets: Value,
    /// Plugins, by name, that differ from the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, PluginOverride>,
    /// Actions, by name, that differ from the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, ActionOverride>,
    /// Of KAI's own process. It means nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_mem_limit: Option<String>,
    /// Of KAI's own process. It means nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number")]
    pub go_mem_limit_ratio: Option<f64>,
}

/// Whether nodes are filled one after the other or evenly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStrategy {
    /// For pods with devices. binpack (the default) or spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// For pods without. binpack (the default) or spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
}

/// How long pods run before they are taken away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MinRuntime {
    /// By their own queue, like 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// By other queues, like 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
}

/// Where past use is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageDbConfig {
    /// prometheus; no other is known.
    pub client_type: String,
    /// Where it is, like `http://prometheus.monitoring:9090`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<String>,
    /// The variable of the coordinator that says where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string_env_var: Option<String>,
    /// How past use is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_params: Option<UsageParams>,
}

/// How past use is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageParams {
    /// After this time use counts half, like 24h. Without it all of the window counts the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life_period: Option<String>,
    /// How far back use counts. A week without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_size: Option<String>,
    /// sliding (the default), tumbling or cron.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_type: Option<String>,
    /// When the first tumbling window began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub tumbling_window_start_time: Option<Timestamp>,
    /// When windows begin, in UTC: minute hour day month weekday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron_string: Option<String>,
    /// How often it is asked. A minute without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_interval: Option<String>,
    /// After this time without an answer no past use counts. Five minutes without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_period: Option<String>,
    /// How long the first cycle waits for the first answer. A minute without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_timeout: Option<String>,
    /// The queries' time-out, resolution and metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_params: BTreeMap<String, String>,
}

/// How a plugin differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginOverride {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Higher ones come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub priority: Option<i64>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

/// How an action differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionOverride {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Higher ones come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub priority: Option<i64>,
}

/// What the coordinator has made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingShardStatus {
    /// Conditions, one per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KaiCondition>,
}

/// The definition.
pub fn definition() -> Definition {
    let names = Names {
        group: "kai.scheduler",
        version: "v1",
        kind: "SchedulingShard",
        plural: "schedulingshards",
        scope: "Cluster",
        short: &[],
    };
    let version = json!({"subresources": {"status": {}}, "additionalPrinterColumns": [
        {"name": "Partition", "type": "string", "jsonPath": ".spec.partitionLabelValue"},
        {"name": "In force", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Deployed\")].status"},
        {"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]});
    let properties = json!({"spec": schema::of::<SchedulingShardSpec>(), "status": schema::of::<SchedulingShardStatus>()});
    Definition::new(
        HEAD,
        &names,
        "How pods of one part of the cluster are placed.",
        properties,
        &[],
        version,
    )
}
