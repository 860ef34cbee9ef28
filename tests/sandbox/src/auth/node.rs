//! The node authoriser: a kubelet reads and writes what concerns its own node and its pods, no more.

use std::sync::LazyLock;

use muster_objects::rbac::{Attributes, Decision, covers};
use serde_json::Value;

use super::bootstrap::node_rules;
use crate::store::Store;

#[cfg(test)]
mod tests;

static RULES: LazyLock<Vec<Value>> = LazyLock::new(node_rules);

/// The decision for a kubelet, from the objects in the store.
pub(super) fn decide(node: &str, attributes: &Attributes<'_>, store: &Store) -> Decision {
    decide_by(node, attributes, |resource, namespace, name| {
        is_related(store, node, resource, namespace, name)
    })
}

/// The decision for a kubelet. `related` says whether an object belongs to a pod of the node.
fn decide_by(
    node: &str,
    attributes: &Attributes<'_>,
    related: impl Fn(&str, &str, &str) -> bool,
) -> Decision {
    if node.is_empty() {
        return no("unknown node for user \"system:node:\"");
    }
    let Attributes { verb, group, resource, subresource, name, namespace, fields, .. } =
        *attributes;
    let linked = || {
        if name.is_empty() {
            no("No Object name found")
        } else if related(resource, namespace, name) {
            yes()
        } else {
            no(format!("no relationship found between node '{node}' and this object"))
        }
    };
    let read = matches!(verb, "get" | "list" | "watch");
    match (group, resource, subresource) {
        ("", "secrets" | "configmaps", _) => match (read, subresource, namespace) {
            (false, ..) => no("can only read resources of this type"),
            (_, "", "") => no("can only read namespaced object of this type"),
            (_, "", _) => linked(),
            _ => no("cannot read subresource"),
        },
        ("", "persistentvolumeclaims", "status") => match verb {
            "update" | "patch" => linked(),
            _ => no("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims" | "persistentvolumes", _) => match (verb, subresource) {
            ("get", "") => linked(),
            ("get", _) => no("cannot get subresource"),
            _ => no("can only get individual resources of this type"),
        },
        ("", "serviceaccounts", "") if verb == "get" => linked(),
        ("", "serviceaccounts", _) => match (verb, name, subresource) {
            ("create", "", _) => no("can only create tokens for individual service accounts"),
            ("create", _, "token") => linked(),
            ("create", ..) => no("can only create token subresource of serviceaccount"),
            _ => no("can only create tokens for individual service accounts"),
        },
        ("coordination.k8s.io", "leases", _) => match (verb, namespace) {
            ("get" | "create" | "update" | "patch" | "delete", "kube-node-lease") => {
                own(verb, name, node, "node lease")
            }
            ("get" | "create" | "update" | "patch" | "delete", _) => {
                no("can only access leases in the \"kube-node-lease\" system namespace")
            }
            _ => no("can only get, create, update, patch, or delete a node lease"),
        },
        ("storage.k8s.io", "csinodes", "") => match verb {
            "get" | "create" | "update" | "patch" | "delete" => own(verb, name, node, "CSINode"),
            _ => no("can only get, create, update, patch, or delete a CSINode"),
        },
        ("", "nodes", "") => match (verb, name) {
            ("create" | "update" | "patch", _) => yes(),
            _ if read && name == node => yes(),
            (_, "") if read => {
                no(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            _ if read => {
                no(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no(""),
        },
        ("", "nodes", "status") if matches!(verb, "update" | "patch") => yes(),
        ("", "nodes", _) => no(""),
        ("", "pods", "") => match verb {
            "get" => linked(),
            "list" | "watch" if fields.iter().any(|(f, v)| f == "spec.nodeName" && v == node) => {
                yes()
            }
            "list" | "watch" if !name.is_empty() => linked(),
            "list" | "watch" => no("can only list/watch pods with spec.nodeName field selector"),
            "create" | "delete" => yes(),
            _ => no(""),
        },
        ("", "pods", "status") if matches!(verb, "update" | "patch") => yes(),
        ("", "pods", "eviction") if verb == "create" => yes(),
        ("", "pods", _) => no(""),
        _ if RULES.iter().any(|rule| covers(rule, attributes)) => yes(),
        _ => no(""),
    }
}

fn own(verb: &str, name: &str, node: &str, what: &str) -> Decision {
    // The name is not known on create; admission checks it then.
    if verb == "create" || name == node {
        return yes();
    }
    no(format!("can only access {what} with the same name as the requesting node"))
}

fn yes() -> Decision {
    Decision { allowed: true, reason: String::new() }
}

fn no(reason: impl Into<String>) -> Decision {
    Decision { allowed: false, reason: reason.into() }
}

fn is_related(store: &Store, node: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let here = |pod: &Value| pod["spec"]["nodeName"] == node;
    if resource == "pods" {
        return store.get("pods", namespace, name).is_some_and(|pod| here(&pod.value));
    }
    if resource == "persistentvolumes" {
        let claim = store.get(resource, "", name).map(|pv| pv.value["spec"]["claimRef"].clone());
        let Some(claim) = claim else { return false };
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        return is_related(store, node, "persistentvolumeclaims", text("namespace"), text("name"));
    }
    let pods = store.list("pods", Some(namespace));
    pods.iter().any(|pod| here(&pod.value) && refers(&pod.value["spec"], resource, name))
}

/// Whether a pod's spec names the object, in volumes, environment or elsewhere.
fn refers(spec: &Value, resource: &str, name: &str) -> bool {
    let keys: &[(&str, &str)] = match resource {
        "serviceaccounts" => return spec["serviceAccountName"] == name,
        "secrets" => &[
            ("secret", "secretName"),
            ("secret", "name"),
            ("secretKeyRef", "name"),
            ("secretRef", "name"),
            ("imagePullSecrets", "name"),
        ],
        "configmaps" => {
            &[("configMap", "name"), ("configMapKeyRef", "name"), ("configMapRef", "name")]
        }
        "persistentvolumeclaims" => &[("persistentVolumeClaim", "claimName")],
        _ => return false,
    };
    names(spec, "", keys, name)
}

fn names(value: &Value, under: &str, keys: &[(&str, &str)], name: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| names(item, under, keys, name)),
        Value::Object(map) => {
            keys.iter().any(|(key, field)| {
                *key == under && map.get(*field).and_then(Value::as_str) == Some(name)
            }) || map.iter().any(|(key, child)| names(child, key, keys, name))
        }
        _ => false,
    }
}
