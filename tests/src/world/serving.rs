//! ModelServings, as tests see them.

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use muster_modelserving::shape::Shape;
use serde_json::Value;

use super::{Seen, World};

impl World {
    /// The ModelServings of the namespace.
    pub fn servings(&self, shape: Shape) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(shape.group(), "v1alpha1", "ModelServing");
        let resource = ApiResource::from_gvk_with_plural(&kind, "modelservings");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// Waits until a condition of a ModelServing has this status; its reason and message.
    pub async fn serving_is(
        &self,
        shape: Shape,
        name: &str,
        condition: &str,
        status: &str,
    ) -> anyhow::Result<(String, String)> {
        let api = self.servings(shape);
        self.until(&format!("{condition}={status} of ModelServing {name}"), async || {
            let object = serde_json::to_value(api.get(name).await?)?;
            Ok(match condition_of(&object, condition) {
                Some((now, reason, message)) if now == status => Seen::Yes((reason, message)),
                _ => Seen::NotYet(object["status"].to_string()),
            })
        })
        .await
    }
}

/// A condition of an object: status, reason, message.
pub fn condition_of(object: &Value, kind: &str) -> Option<(String, String, String)> {
    let list = object.pointer("/status/conditions")?.as_array()?;
    let one = list.iter().find(|one| one["type"] == kind)?;
    let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Some((word("status"), word("reason"), word("message")))
}

/// The label selector of a ModelServing's pods.
pub fn selector(serving: &str) -> String {
    format!("modelserving.volcano.sh/name={serving}")
}
