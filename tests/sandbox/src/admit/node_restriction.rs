//! NodeRestriction: a kubelet writes its own node, its lease and the pods that run on it.

use std::collections::BTreeSet;

use muster_objects::meta;
use muster_objects::status::{Resource, Status};
use serde_json::Value;

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct NodeRestriction;

const MIRROR: &str = "kubernetes.io/config.mirror";

impl Plugin for NodeRestriction {
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        let attempt = &*attempt;
        let Some(node) = attempt.user.node_name() else { return Ok(()) };
        let no = |why: &str| Err(attempt.forbid(why));
        if node.is_empty() {
            return no(&format!("could not determine node from user {:?}", attempt.user.name));
        }
        match (attempt.resource.group, attempt.resource.resource, attempt.subresource) {
            ("", "pods", "") => pod(attempt, node, store),
            ("", "pods", "status") => pod_status(attempt, node),
            ("", "pods", "eviction") => {
                if attempt.operation != Operation::Create {
                    return no(&format!("unexpected operation {}", attempt.operation));
                }
                if runs_on(attempt, attempt.shown_name(), store)? != node {
                    return no(&format!(
                        "node {node} can only evict pods with spec.nodeName set to itself"
                    ));
                }
                Ok(())
            }
            ("", "pods", other) => no(&format!(
                "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
            )),
            ("", "nodes", _) => node_object(attempt, node),
            ("", "serviceaccounts", "token") => token(attempt, node, store),
            ("coordination.k8s.io", "leases", _) => {
                if attempt.namespace != "kube-node-lease" {
                    return no(
                        "can only access leases in the \"kube-node-lease\" system namespace",
                    );
                }
                if attempt.shown_name() != node {
                    return no(
                        "can only access node lease with the same name as the requesting node",
                    );
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn runs_on(attempt: &Attempt<'_>, name: &str, store: &Store) -> Result<String, Status> {
    let pod = store
        .get("pods", attempt.namespace, name)
        .ok_or_else(|| Status::not_found(Resource { group: "", plural: "pods" }, name))?;
    Ok(pod.value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
}

fn pod(attempt: &Attempt<'_>, node: &str, store: &Store) -> Result<(), Status> {
    match (attempt.operation, &attempt.object) {
        (Operation::Delete, _) => {
            if runs_on(attempt, attempt.name, store)? == node {
                return Ok(());
            }
            Err(attempt.forbid(&format!(
                "node {node:?} can only delete pods with spec.nodeName set to itself"
            )))
        }
        (Operation::Create, Some(pod)) => mirror(attempt, pod, node, store),
        (operation, _) => Err(attempt.forbid(&format!(
            "unexpected operation \"{operation}\", node {node:?} can only create and delete mirror pods"
        ))),
    }
}

/// A kubelet creates only copies of its static pods.
fn mirror(attempt: &Attempt<'_>, pod: &Value, node: &str, store: &Store) -> Result<(), Status> {
    let no = |why: String| Err(attempt.forbid(&why));
    if meta::annotation(pod, MIRROR).is_none() {
        return no(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if pod["spec"]["nodeName"] != node {
        return no(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match meta::owners(pod) {
        [owner] => owner,
        [] => {
            return no(format!(
                "node {node:?} can only create pods with an owner reference set to itself"
            ));
        }
        _ => {
            return no(format!(
                "node {node:?} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return no(format!(
            "node {node:?} can only create pods with an owner reference set to itself"
        ));
    }
    if owner["controller"] != true {
        return no(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner["blockOwnerDeletion"] == true {
        return no(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let there = store
        .get("nodes", "", node)
        .ok_or_else(|| Status::not_found(Resource { group: "", plural: "nodes" }, node))?;
    let (uid, claimed) = (meta::uid(&there.value), owner["uid"].as_str().unwrap_or_default());
    if uid != claimed {
        return no(format!("node {node} UID mismatch: expected {claimed} got {uid}"));
    }
    Ok(())
}

fn pod_status(attempt: &Attempt<'_>, node: &str) -> Result<(), Status> {
    let no = |why: String| Err(attempt.forbid(&why));
    let (Operation::Update, Some(new), Some(old)) =
        (attempt.operation, &attempt.object, attempt.old)
    else {
        return no(format!("unexpected operation \"{}\"", attempt.operation));
    };
    if old["spec"]["nodeName"] != node {
        return no(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if !changed_labels(new, Some(old)).is_empty() {
        return no(format!("node {node:?} cannot update labels through pod status"));
    }
    Ok(())
}

fn node_object(attempt: &Attempt<'_>, node: &str) -> Result<(), Status> {
    let name = attempt.shown_name();
    let no = |why: String| Err(attempt.forbid(&why));
    if name != node {
        return no(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let Some(new) = &attempt.object else { return Ok(()) };
    let forbidden: Vec<&str> =
        changed_labels(new, attempt.old).into_iter().filter(|key| !is_own_label(key)).collect();
    let list = forbidden.join(", ");
    match (attempt.operation, attempt.old) {
        (Operation::Create, _) if !list.is_empty() => {
            no(format!("node {node:?} is not allowed to set the following labels: {list}"))
        }
        (Operation::Update, Some(old)) => {
            if entries(&new["spec"]["taints"]) != entries(&old["spec"]["taints"]) {
                return no(format!("node {node:?} is not allowed to modify taints"));
            }
            if meta::owners(new) != meta::owners(old) {
                return no(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            match list.is_empty() {
                true => Ok(()),
                false => no(format!("is not allowed to modify labels: {list}")),
            }
        }
        _ => Ok(()),
    }
}

fn token(attempt: &Attempt<'_>, node: &str, store: &Store) -> Result<(), Status> {
    let (Operation::Create, Some(request)) = (attempt.operation, &attempt.object) else {
        return Ok(());
    };
    let no = |why: &str| Err(attempt.forbid(why));
    let reference = &request["spec"]["boundObjectRef"];
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (name, uid) = (text("name"), text("uid"));
    if text("apiVersion") != "v1" || text("kind") != "Pod" || name.is_empty() {
        return no("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return no("node requested token with a pod binding without a uid");
    }
    let Some(pod) = store.get("pods", attempt.namespace, name) else {
        return Err(Status::not_found(Resource { group: "", plural: "pods" }, name));
    };
    if meta::uid(&pod.value) != uid {
        return no(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod.value["spec"]["nodeName"] != node {
        return no("node requested token bound to a pod scheduled on a different node");
    }
    Ok(())
}

fn entries(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn changed_labels<'a>(new: &'a Value, old: Option<&'a Value>) -> BTreeSet<&'a str> {
    let keys = |object: &'a Value| {
        let labels = object["metadata"]["labels"].as_object();
        labels.into_iter().flatten().map(|(key, _)| key.as_str())
    };
    let all = keys(new).chain(old.into_iter().flat_map(keys));
    all.filter(|key| meta::label(new, key) != old.and_then(|old| meta::label(old, key))).collect()
}

/// Whether a kubelet may set this label on its node.
fn is_own_label(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    let known = matches!(
        key,
        "kubernetes.io/hostname"
            | "kubernetes.io/os"
            | "kubernetes.io/arch"
            | "beta.kubernetes.io/os"
            | "beta.kubernetes.io/arch"
            | "beta.kubernetes.io/instance-type"
            | "failure-domain.beta.kubernetes.io/zone"
            | "failure-domain.beta.kubernetes.io/region"
            | "topology.kubernetes.io/zone"
            | "topology.kubernetes.io/region"
    );
    known
        || within("kubelet.kubernetes.io")
        || within("node.kubernetes.io")
        || !(within("kubernetes.io") || within("k8s.io"))
}
