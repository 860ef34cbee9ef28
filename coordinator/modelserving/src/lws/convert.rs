//! The ModelServing of a LeaderWorkerSet.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::{API_VERSION, KIND, LeaderWorkerSet, PLUGIN, ROLE};
use crate::api::{self, GroupTemplate, ModelServing, Plugin, PodTemplate, Role, Spec};
use crate::ranktable::names::RANKTABLE_PREFIXES;
use crate::shape::Shape;

// === impl LeaderWorkerSet ===

impl LeaderWorkerSet {
    /// The ModelServing to be applied: all of its fields that this LeaderWorkerSet decides, and no others.
    pub fn to_serving(&self) -> Value {
        let template = &self.spec.leader_worker_template;
        let role = Role {
            name: ROLE.to_owned(),
            replicas: Some(1),
            entry_template: self.leader().clone(),
            worker_replicas: template.size.unwrap_or(1).saturating_sub(1).max(0),
            worker_template: Some(template.worker_template.clone()),
            // Roles are applied as one value, with their defaults, or they would seem to differ each time.
            max_unavailable: Some(1.into()),
            ..Role::default()
        };
        let plugin =
            Plugin { name: PLUGIN.to_owned(), kind: "BuiltIn".to_owned(), ..Plugin::default() };
        let spec = Spec {
            replicas: Some(self.spec.replicas.unwrap_or(1)),
            // A ModelServing's scheduler is written over that of its templates.
            scheduler_name: scheduler(self.leader()).to_owned(),
            plugins: vec![plugin],
            template: GroupTemplate { roles: vec![role], ..GroupTemplate::default() },
            ..Spec::default()
        };
        let serving = ModelServing { metadata: self.serving_metadata(), spec, status: None };
        let mut serving = serde_json::to_value(serving).unwrap_or_default();
        serving["apiVersion"] = Shape::Kthena.api_version().into();
        serving["kind"] = api::KIND.into();
        serving
    }

    fn serving_metadata(&self) -> ObjectMeta {
        let own = &self.metadata;
        // ModelServings understand these.
        let asks = |key: &str| RANKTABLE_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        let annotations = own.annotations.iter().flatten().filter(|(key, _)| asks(key));
        let annotations: BTreeMap<String, String> =
            annotations.map(|(key, value)| (key.clone(), value.clone())).collect();
        let owner = OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            name: own.name.clone().unwrap_or_default(),
            uid: own.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        ObjectMeta {
            name: own.name.clone(),
            namespace: own.namespace.clone(),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }
}

/// The scheduler that a template names; empty if it names none.
pub(super) fn scheduler(template: &PodTemplate) -> &str {
    template.spec.get("schedulerName").and_then(Value::as_str).unwrap_or_default()
}
