//! What of an object is kept: nothing secret, nothing that no decision depends on.

use serde_json::{Map, Value as Json, json};

use super::kinds::{Kind, ListedFields};

/// What kubectl apply remembers: the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Lists of containers in a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// What a container does, which is nobody's business here.
const DEEDS: [&str; 6] =
    ["command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Leaves of an object what a snapshot holds. Items of lists do not say what they are; here they do.
pub(super) fn prune(object: &mut Json, kind: &Kind, version: &str) {
    if kind.fields != ListedFields::All {
        *object = names(object, kind.fields);
    }
    let Some(fields) = object.as_object_mut() else { return };
    if kind.fields != ListedFields::Names {
        fields.insert("apiVersion".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.kind.into());
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Json::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    match kind.kind {
        "Pod" => pod(fields),
        "Node" => {
            // Images of nodes are a large part of a snapshot, and no decision looks at them.
            if let Some(status) = fields.get_mut("status").and_then(Json::as_object_mut) {
                status.remove("images");
            }
        }
        _ => {}
    }
}

fn pod(fields: &mut Map<String, Json>) {
    let Some(spec) = fields.get_mut("spec").and_then(Json::as_object_mut) else { return };
    for list in CONTAINERS {
        let Some(Json::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Json::as_object_mut) {
            for deed in DEEDS {
                container.remove(deed);
            }
            let Some(Json::Array(env)) = container.get_mut("env") else { continue };
            for variable in env.iter_mut().filter_map(Json::as_object_mut) {
                variable.remove("value");
            }
        }
    }
}

/// Names, and owners if they are asked for.
fn names(object: &Json, fields: ListedFields) -> Json {
    let metadata = &object["metadata"];
    let mut kept = json!({"name": metadata["name"]});
    let more: &[&str] = if fields == ListedFields::Owners {
        &["namespace", "uid", "ownerReferences"]
    } else {
        &["namespace"]
    };
    if let Some(kept) = kept.as_object_mut() {
        for key in more {
            if let Some(value) = metadata.get(*key) {
                kept.insert((*key).to_owned(), value.clone());
            }
        }
    }
    json!({"metadata": kept})
}

#[cfg(test)]
mod tests {
    use super::super::kinds::Scope;
    use super::*;

    fn kind(name: &str) -> &'static Kind {
        Scope::All.kinds().find(|kind| kind.kind == name).unwrap()
    }

    #[test]
    fn values_and_commands_of_pods_are_left_out_and_references_stay() {
        let mut object = json!({
            "metadata": {"name": "p", "managedFields": [1], "annotations": {LAST_APPLIED: "x", "a": "b"}},
            "spec": {"containers": [{"name": "c", "command": ["sh"], "args": ["--token=t"], "env": [
                {"name": "KEY", "value": "secret"},
                {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]}});
        prune(&mut object, kind("Pod"), "v1");
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "annotations": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "env": [
                {"name": "KEY"},
                {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]}});
        assert_eq!(object, expected);
    }

    #[test]
    fn of_config_maps_only_names_are_left_whatever_the_server_sends() {
        let mut object = json!({"metadata": {"name": "m", "namespace": "d", "labels": {"a": "b"}},
            "data": {"password": "x"}});
        prune(&mut object, kind("ConfigMap"), "v1");
        assert_eq!(object, json!({"metadata": {"name": "m", "namespace": "d"}}));
    }

    #[test]
    fn of_owners_names_and_owners_are_left() {
        let mut object = json!({"metadata": {"name": "j", "namespace": "d", "uid": "u",
            "annotations": {"a": "b"}, "ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "v"}]},
            "spec": {"x": 1}});
        prune(&mut object, kind("Job"), "batch/v1");
        let expected = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j",
            "namespace": "d", "uid": "u", "ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "v"}]}});
        assert_eq!(object, expected);
    }
}
