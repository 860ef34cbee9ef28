//! The objects as people write them: `workload.serving.volcano.sh/v1alpha1`.
//!
//! Pod specs stay JSON: whatever a person writes there reaches the pod, also what this version has never heard of.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_kube::Condition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Its API group.
pub const GROUP: &str = "workload.serving.volcano.sh";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Its kind.
pub const KIND: &str = "ModelServing";

/// A model that is served by groups of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelServing {
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
    /// How many serving groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Written over the pods' own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// What changes pods before they are created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Plugin>,
    /// One serving group.
    #[serde(default)]
    pub template: GroupTemplate,
    /// How another template replaces the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
    /// What goes with a pod that is lost: `RoleRecreate`, `ServingGroupRecreate`, `None`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recovery_policy: String,
}

/// A plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plugin {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `BuiltIn`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Which pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PluginScope>,
}

/// Which pods a plugin is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginScope {
    /// These roles; all if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// `All`, `Entry`, `Worker`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
}

/// One serving group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTemplate {
    /// How long a pod that fails may take to become ready again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_grace_period_seconds: Option<i64>,
    /// How many must be there at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_policy: Option<GangPolicy>,
    /// How near to each other they must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// Its roles, one to four.
    #[serde(default)]
    pub roles: Vec<Role>,
}

/// How many instances of each role must be there at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangPolicy {
    /// By role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_role_replicas: Option<BTreeMap<String, i32>>,
}

/// How near pods must be; each policy goes into a PodGroup as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTopology {
    /// The pods of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_policy: Option<Value>,
    /// The pods of a role's instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_policy: Option<Value>,
}

/// A role: an entry pod and its workers, so many times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How many instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The first pod of an instance.
    #[serde(default)]
    pub entry_template: PodTemplate,
    /// How many other pods an instance has.
    #[serde(default)]
    pub worker_replicas: i32,
    /// The other pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_template: Option<PodTemplate>,
    /// In role mode, how many instances may be away: a number or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Value>,
    /// In role mode, how many instances keep the old template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Value>,
}

/// A pod to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// The rest.
    #[serde(default)]
    pub spec: Map<String, Value>,
}

/// Labels and annotations of a pod to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMeta {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// How another template replaces the old one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// `ServingGroupRollingUpdate` or `RoleRollingUpdate`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How many at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update_configuration: Option<RollingUpdate>,
}

/// How many groups are replaced at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many may be away: a number or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Value>,
    /// How many keep the old template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Value>,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The spec that this is about.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i64,
    /// Groups of the old template.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_replicas: i64,
    /// Groups of the new template.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updated_replicas: i64,
    /// Groups that are ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub available_replicas: i64,
    /// The old template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The new one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// Selects one pod per group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// How it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
