//! The short form of a ModelServing, `workload.kthena.io/v1alpha1`: a model and roles, each role so many pods.
//!
//! ```text
//!   spec:                              one serving group
//!     model: {name, source}              (kept, nothing is done with it)
//!     roles:                             roles
//!       - name: worker                     instances worker-0, worker-1 of one pod each,
//!         replicas: 2                      which are called <name>-worker-0 and <name>-worker-1
//!         template: {…}
//! ```
//!
//! [`translate`] makes of it what the controller works on, so that one controller serves both forms.

mod validate;

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{GroupTemplate, ModelServing, PodTemplate, Role, Spec, Status};

pub use validate::validate;

/// Its API group.
pub const GROUP: &str = "workload.kthena.io";

/// No object has more roles.
pub const MOST_ROLES: usize = 16;

/// A model that is served by the pods of some roles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShortServing {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: SeedSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedSpec {
    /// The model, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Its roles, one to sixteen.
    #[serde(default)]
    pub roles: Vec<SeedRole>,
    /// Written over the pods' own; without it they keep theirs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// What goes with a pod that is lost: `RoleRecreate`, `ServingGroupRecreate`, `None`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recovery_policy: String,
}

/// A model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What else is said of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Where a model is from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The hub: `ModelScope`.
    #[serde(default, rename = "modelHub", skip_serializing_if = "String::is_empty")]
    pub model_hub: String,
    /// What else is said of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Pods of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedRole {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How many pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A pod.
    #[serde(default)]
    pub template: PodTemplate,
}

/// The same as one serving group. Its roles have no workers: every pod is the entry pod of its instance.
pub fn translate(serving: &ShortServing) -> ModelServing {
    let spec = &serving.spec;
    let role = |role: &SeedRole| Role {
        name: role.name.clone(),
        replicas: Some(role.replicas.unwrap_or(1)),
        entry_template: role.template.clone(),
        ..Role::default()
    };
    let recovery_policy = match spec.recovery_policy.as_str() {
        "" => "RoleRecreate".to_owned(),
        given => given.to_owned(),
    };
    ModelServing {
        metadata: serving.metadata.clone(),
        spec: Spec {
            replicas: Some(1),
            scheduler_name: spec.scheduler_name.clone(),
            template: GroupTemplate {
                restart_grace_period_seconds: Some(0),
                roles: spec.roles.iter().map(role).collect(),
                ..GroupTemplate::default()
            },
            recovery_policy,
            ..Spec::default()
        },
        status: serving.status.clone(),
    }
}
