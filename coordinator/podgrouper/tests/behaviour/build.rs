//! Objects for tests.

use muster_podgrouper::{Config, Given, GroupError, Object, Outcome, group};
use serde_json::{Value, json};

/// A pod of our scheduler in namespace `a`, owned by these, nearest first.
pub fn pod(name: &str, labels: Value, owner: Option<&Value>) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": labels},
        "spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "main"}]}});
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([reference(owner)]);
    }
    pod
}

/// Any object in namespace `a`.
pub fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}")}, "spec": spec})
}

/// A reference to an owner.
pub fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

/// Groups the first of these, which is a pod.
pub fn grouped(objects: &[Value]) -> Result<Outcome, GroupError> {
    grouped_by(objects, &Config::default())
}

/// The same with settings.
pub fn grouped_by(objects: &[Value], config: &Config) -> Result<Outcome, GroupError> {
    let given = Given::new(objects.iter().cloned().map(Object::new));
    group(&Object::new(objects[0].clone()), &given, config)
}

/// The spec of the group, and the pod's part in it.
pub fn spec_and_part(objects: &[Value]) -> (Value, Option<String>) {
    let outcome = grouped(objects).unwrap();
    let part = outcome.pod.and_then(|marks| marks.labels.into_values().next());
    (outcome.pod_group.unwrap()["spec"].take(), part)
}
