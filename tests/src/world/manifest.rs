//! Objects from YAML or JSON.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{self, Scope};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::plan::WORLD;
use super::{Place, Seen, World, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// What discovery said of kinds, asked once each.
#[derive(Debug, Default)]
pub(super) struct Kinds(Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>);

impl World {
    /// Creates the objects of a manifest: YAML documents or JSON. Namespaced ones that name no namespace come into
    /// the world's own. What the server refuses for a moment is sent again.
    pub async fn create(&self, manifest: &str) -> anyhow::Result<Vec<Value>> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(manifest).context("the manifest cannot be read")?;
        let mut made = Vec::new();
        for document in documents {
            made.push(self.create_object(document).await?);
        }
        Ok(made)
    }

    /// The object as it is created here: in a real cluster its pods stay on the world's nodes, and what has no namespace has
    /// a name of the world's own. Who changes an object later with a whole spec needs this too.
    pub fn kept(&self, mut object: Value) -> Value {
        if let Place::Cluster(cluster) = &self.place {
            keep_to(cluster.mark(), &mut object);
            own_names(cluster.mark(), &mut object);
        }
        object
    }

    /// Creates one object.
    pub async fn create_object(&self, object: Value) -> anyhow::Result<Value> {
        let object = self.kept(object);
        let api = self.api_of(&object).await?;
        let object: DynamicObject = serde_json::from_value(object)?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let what = format!("the creation of {name}");
        let made = until(&what, PATIENCE, async || {
            match api.create(&PostParams::default(), &object).await {
                Ok(made) => Ok(Seen::Yes(Ok(made))),
                Err(kube::Error::Api(refused)) if refused.code == 429 || refused.code >= 500 => {
                    Ok(Seen::NotYet(refused.message.clone()))
                }
                Err(error) => Ok(Seen::Yes(Err(error))),
            }
        });
        Ok(serde_json::to_value(made.await?.with_context(|| format!("creating {name}"))?)?)
    }

    /// An object as it is now, by its kind and name.
    pub async fn object(&self, named: &Value) -> anyhow::Result<Value> {
        let name = named.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let found = self.api_of(named).await?.get(name).await;
        Ok(serde_json::to_value(found.with_context(|| format!("reading {name}"))?)?)
    }

    /// Deletes an object, by its kind and name.
    pub async fn delete_object(&self, named: &Value) -> anyhow::Result<()> {
        let name = named.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let gone = self.api_of(named).await?.delete(name, &DeleteParams::default()).await;
        gone.map(drop).with_context(|| format!("deleting {name}"))
    }

    /// Where objects of this kind live.
    async fn api_of(&self, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
        let types: TypeMeta = serde_json::from_value(object.clone())
            .context("the object has no apiVersion and kind")?;
        let kind = GroupVersionKind::try_from(types)?;
        let mut known = self.kinds.0.lock().await;
        let (resource, namespaced) = match known.get(&kind) {
            Some(found) => found.clone(),
            None => {
                let what = format!("kind {} in {}", kind.kind, kind.api_version());
                let found = until(&what, PATIENCE, async || {
                    let (resource, about) = discovery::pinned_kind(&self.client, &kind).await?;
                    Ok(Seen::Yes((resource, about.scope == Scope::Namespaced)))
                })
                .await?;
                known.insert(kind, found.clone());
                found
            }
        };
        let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
        Ok(match namespaced {
            true => {
                let namespace = own.unwrap_or(self.namespace());
                Api::namespaced_with(self.client(), namespace, &resource)
            }
            false => Api::all_with(self.client(), &resource),
        })
    }
}

/// Keeps every pod and pod template in the object on the nodes of the marked world.
fn keep_to(mark: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("containers").is_some_and(Value::is_array) {
                bind_spec(mark, fields);
            }
            fields.values_mut().for_each(|inner| keep_to(mark, inner));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| keep_to(mark, inner)),
        _ => {}
    }
}

/// What has no namespace, and what names it, uses the world's own names: others use that cluster too. The first queues of a
/// cluster, which the coordinators make, are everybody's.
fn own_names(mark: &str, object: &mut Value) {
    const RUNTIME: &str = "ClusterTrainingRuntime";
    let pointers: &[&str] = match object["kind"].as_str() {
        Some(RUNTIME) => &["/metadata/name"],
        Some("TrainJob") => match object.pointer("/spec/runtimeRef/kind") {
            Some(kind) if kind != RUNTIME => &[],
            _ => &["/spec/runtimeRef/name"],
        },
        Some("Queue") => &["/metadata/name", "/spec/parentQueue"],
        Some("PodGroup") => &["/spec/queue"],
        _ => &[],
    };
    for pointer in pointers {
        if let Some(Value::String(name)) = object.pointer_mut(pointer)
            && !name.is_empty()
            && !name.starts_with("default-")
        {
            *name = format!("{mark}-{name}");
        }
    }
}

fn bind_spec(mark: &str, spec: &mut Map<String, Value>) {
    let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
    if let Some(selector) = selector.as_object_mut() {
        selector.insert(WORLD.to_owned(), mark.into());
    }
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Some(tolerations) = tolerations.as_array_mut() {
        tolerations.push(json!({ "key": WORLD, "value": mark, "effect": "NoSchedule" }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_of_all_namespaces_have_names_of_their_world() {
        let mut runtime = json!({"kind": "ClusterTrainingRuntime", "metadata": {"name": "plain"}});
        own_names("w", &mut runtime);
        assert_eq!(runtime["metadata"]["name"], "w-plain");
        let mut job = json!({"kind": "TrainJob", "metadata": {"name": "job"},
            "spec": {"runtimeRef": {"name": "plain"}}});
        own_names("w", &mut job);
        assert_eq!(
            (&job["spec"]["runtimeRef"]["name"], &job["metadata"]["name"]),
            (&json!("w-plain"), &json!("job"))
        );
        job["spec"]["runtimeRef"] = json!({"name": "own", "kind": "TrainingRuntime"});
        own_names("w", &mut job);
        assert_eq!(job["spec"]["runtimeRef"]["name"], "own");
    }

    #[test]
    fn queues_and_groups_that_name_them_have_names_of_their_world() {
        let mut queue =
            json!({"kind": "Queue", "metadata": {"name": "team"}, "spec": {"parentQueue": "all"}});
        own_names("w", &mut queue);
        assert_eq!(
            (&queue["metadata"]["name"], &queue["spec"]["parentQueue"]),
            (&json!("w-team"), &json!("w-all"))
        );
        let mut first = json!({"kind": "Queue", "metadata": {"name": "team"}, "spec": {"parentQueue": "default-parent-queue"}});
        own_names("w", &mut first);
        assert_eq!(first["spec"]["parentQueue"], "default-parent-queue");
        let mut group =
            json!({"kind": "PodGroup", "metadata": {"name": "gang"}, "spec": {"queue": "team"}});
        own_names("w", &mut group);
        assert_eq!(
            (&group["metadata"]["name"], &group["spec"]["queue"]),
            (&json!("gang"), &json!("w-team"))
        );
    }

    #[test]
    fn a_pod_template_deep_in_an_object_is_kept_on_the_nodes_of_its_world() {
        let mut set = json!({ "spec": { "replicatedJobs": [ { "template": { "spec": { "template": {
            "spec": { "containers": [ { "name": "c" } ] } } } } } ] } });
        keep_to("w", &mut set);
        let spec = &set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
        assert_eq!(spec["nodeSelector"], json!({ WORLD: "w" }));
        assert_eq!(spec["tolerations"][0]["value"], "w");
    }
}
