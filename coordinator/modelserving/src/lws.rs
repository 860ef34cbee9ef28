//! LeaderWorkerSets, `leaderworkerset.x-k8s.io/v1`, as ModelServings: what Kthena's adapter makes of them.
//!
//! ```text
//!   LeaderWorkerSet ── to_serving ──▶ ModelServing of the same name ──▶ groups of one leader and its workers
//!                   ── ignored ─────▶ what of it has no counterpart
//!                   ◀── status ────── the counts and conditions of the ModelServing
//! ```

mod convert;
mod ignored;
mod ownership;
mod status;

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::api::PodTemplate;
use crate::shape::{self, Unreadable};

pub use ownership::Ownership;

/// Its API group.
pub const GROUP: &str = "leaderworkerset.x-k8s.io";
/// Its `apiVersion`.
pub const API_VERSION: &str = "leaderworkerset.x-k8s.io/v1";
/// Its kind.
pub const KIND: &str = "LeaderWorkerSet";
/// Its definition.
pub const DEFINITION: &str = "leaderworkersets.leaderworkerset.x-k8s.io";

/// The plugin that gives pods the labels of LeaderWorkerSet's own pods.
pub const PLUGIN: &str = "lws-standard-labels";
/// The only role of the ModelServing.
pub const ROLE: &str = "default";

/// Label of pods: the LeaderWorkerSet's name.
pub const NAME_LABEL: &str = "leaderworkerset.sigs.k8s.io/name";
/// Label of pods: the number of their group.
pub const GROUP_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// Label of pods: their number in the group; the leader's is 0.
pub const WORKER_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// Label of pods: the same for all pods of a group, and for no others of the namespace.
pub const GROUP_KEY_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-key";

/// A LeaderWorkerSet, as far as a ModelServing is made of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct LeaderWorkerSet {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: Spec,
    /// All of it, to find what is not taken over.
    #[serde(skip)]
    raw: Value,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// How many groups; 1 if it is not said.
    pub replicas: Option<i32>,
    /// One group.
    pub leader_worker_template: LeaderWorkerTemplate,
}

/// One group: a leader and its workers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerTemplate {
    /// The leader; a worker leads if there is none.
    pub leader_template: Option<PodTemplate>,
    /// The other pods.
    pub worker_template: PodTemplate,
    /// How many pods, with the leader; 1 if it is not said.
    pub size: Option<i32>,
}

// === impl LeaderWorkerSet ===

impl LeaderWorkerSet {
    /// Reads an object that the API server hands out.
    pub fn read(raw: Value) -> Result<Self, Unreadable> {
        let set: Self = shape::read(&raw)?;
        let template = &set.spec.leader_worker_template;
        let at = |name: &str| format!("spec.leaderWorkerTemplate.{name}.spec");
        if let Some(leader) = &template.leader_template {
            shape::pod(&raw, &at("leaderTemplate"), leader)?;
        }
        shape::pod(&raw, &at("workerTemplate"), &template.worker_template)?;
        Ok(Self { raw, ..set })
    }

    /// The template of leaders.
    fn leader(&self) -> &PodTemplate {
        let template = &self.spec.leader_worker_template;
        template.leader_template.as_ref().unwrap_or(&template.worker_template)
    }
}
