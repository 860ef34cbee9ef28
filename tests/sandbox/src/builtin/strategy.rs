//! What the server itself fills in, keeps or drops when an object is made or changed.

use serde_json::{Map, Value, json};

use super::field::{at, copy, entries, fields, fill_absent, number, text, unset, within};
use super::types::TABLE;
use super::{Prepare, apps, job, pod, service};

/// What counts as a change of the wanted state, for kinds that have a generation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Spec,
    /// The spec and the annotations.
    SpecAndAnnotations,
    /// Everything but the metadata, and the labels.
    AllAndLabels,
    /// Everything but the metadata.
    All,
    /// Nothing: it stays 1.
    Never,
}

fn counted(group: &str, kind: &str) -> Option<Counted> {
    Some(match (group, kind) {
        ("", "Pod" | "ReplicationController") => Counted::Spec,
        ("", "PodTemplate") => Counted::All,
        ("apps", "Deployment") => Counted::SpecAndAnnotations,
        ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet") => Counted::Spec,
        ("batch", "Job" | "CronJob") => Counted::Spec,
        ("policy", "PodDisruptionBudget") => Counted::Spec,
        ("networking.k8s.io", "NetworkPolicy" | "Ingress" | "IngressClass") => Counted::Spec,
        ("discovery.k8s.io", "EndpointSlice") => Counted::AllAndLabels,
        ("scheduling.k8s.io", "PriorityClass") => Counted::Never,
        ("admissionregistration.k8s.io", kind) if kind.ends_with("WebhookConfiguration") => {
            Counted::All
        }
        ("admissionregistration.k8s.io", _) => Counted::Spec,
        _ => return None,
    })
}

/// Whether the kind has a `/status` that alone may write the status.
pub(super) fn has_status(group: &str, kind: &str) -> bool {
    (group, kind) != ("", "Event")
        && TABLE.kind(group, kind).is_some_and(|shape| shape.field("status").is_some())
}

fn zero_status(group: &str, kind: &str) -> Value {
    let field = TABLE.kind(group, kind).and_then(|shape| shape.field("status"));
    field.map_or(Value::Null, |field| TABLE.zero(&field.ty))
}

/// See [`super::prepare_create`].
pub(super) fn prepare_create(group: &str, kind: &str, object: &mut Value, cx: &Prepare<'_>) {
    let metadata = within(fields(object), "metadata");
    metadata.remove("deletionTimestamp");
    metadata.remove("deletionGracePeriodSeconds");
    if counted(group, kind).is_some() {
        metadata.insert("generation".to_owned(), 1.into());
    }
    match (group, kind) {
        ("", "Pod") => return pod::prepare_create(object, cx.now),
        ("", "Node") => return,
        ("", "ServiceAccount") => clean_secrets(object),
        ("", "Namespace") => namespace_finalizer(object),
        ("", "PersistentVolumeClaim") => data_sources(object),
        ("", "Service") => service::allocate(object, cx),
        ("batch", "Job") => job::prepare_create(object),
        ("coordination.k8s.io", "Lease") => coordinated(object, None),
        ("apps", "DaemonSet") => apps::stamp_template(object, None),
        _ => {}
    }
    if !has_status(group, kind) {
        return;
    }
    let mut status = zero_status(group, kind);
    match (group, kind) {
        ("", "Namespace") => status = json!({"phase": "Active"}),
        ("", "PersistentVolumeClaim") => status = json!({"phase": "Pending"}),
        ("", "PersistentVolume") => {
            status = json!({"phase": "Pending", "lastPhaseTransitionTime": cx.now});
        }
        _ => {}
    }
    fields(object).insert("status".to_owned(), status);
}

fn namespace_finalizer(namespace: &mut Value) {
    let spec = within(fields(namespace), "spec");
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|name| name == "kubernetes")
    {
        finalizers.push("kubernetes".into());
    }
}

fn clean_secrets(account: &mut Value) {
    for secret in super::field::items(fields(account), "secrets") {
        secret.retain(|key, _| key == "name");
    }
}

/// The fields of coordinated leader election are off, unless they were there before.
fn coordinated(lease: &mut Value, old: Option<&Value>) {
    let Some(spec) = super::field::object(fields(lease), "spec") else { return };
    for key in ["strategy", "preferredHolder"] {
        if old.is_none_or(|old| at(old, &["spec", key]).is_none()) {
            spec.remove(key);
        }
    }
}

/// A claim's two ways to name a source of data agree.
fn data_sources(claim: &mut Value) {
    let spec = within(fields(claim), "spec");
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(source)) if text(&source, &["namespace"]).is_empty() => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// See [`super::prepare_update`].
pub(super) fn prepare_update(group: &str, kind: &str, new: &mut Value, old: &Value) {
    keep_identity(new, old);
    match (group, kind) {
        ("", "ServiceAccount") => clean_secrets(new),
        ("", "Secret") if unset(fields(new), "type") => copy(fields(new), old, "type"),
        ("", "Namespace") => {
            let empty = Value::Null;
            let known = old.get("spec").unwrap_or(&empty);
            copy(within(fields(new), "spec"), known, "finalizers");
        }
        ("", "PersistentVolumeClaim") => data_sources(new),
        ("", "Service") => service::prepare_update(new, old),
        ("coordination.k8s.io", "Lease") => coordinated(new, Some(old)),
        ("apps", "DaemonSet") => apps::stamp_template(new, Some(old)),
        _ => {}
    }
    if has_status(group, kind) {
        copy(fields(new), old, "status");
    }
    if counted(group, kind).is_some_and(|counted| changed(counted, new, old)) {
        let generation = number(old, &["metadata", "generation"]).unwrap_or_default();
        within(fields(new), "metadata").insert("generation".to_owned(), (generation + 1).into());
    }
}

fn changed(counted: Counted, new: &Value, old: &Value) -> bool {
    let differs = |path: &[&str]| at(new, path) != at(old, path);
    let body = |object: &Value| -> Vec<(String, Value)> {
        let skipped = |key: &str| matches!(key, "metadata" | "apiVersion" | "kind");
        let kept = entries(object, &[]).filter(|(key, _)| !skipped(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    match counted {
        Counted::Never => false,
        Counted::Spec => differs(&["spec"]),
        Counted::SpecAndAnnotations => differs(&["spec"]) || differs(&["metadata", "annotations"]),
        Counted::All => body(new) != body(old),
        Counted::AllAndLabels => differs(&["metadata", "labels"]) || body(new) != body(old),
    }
}

/// What the client left out of the identity comes from the stored object; the generation always.
fn keep_identity(new: &mut Value, old: &Value) {
    let metadata = within(fields(new), "metadata");
    let empty = Value::Null;
    let known = old.get("metadata").unwrap_or(&empty);
    for key in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = known.get(key) {
            fill_absent(metadata, key, value.clone());
        }
    }
    copy(metadata, known, "generation");
}

/// See [`super::prepare_status`].
pub(super) fn prepare_status(group: &str, kind: &str, new: &mut Value, old: &Value) {
    keep_identity(new, old);
    match (group, kind) {
        ("", "Pod") => return pod::prepare_status(new, old),
        ("", "Node") => {
            if at(old, &["status", "config"]).is_none()
                && let Some(status) = super::field::object(fields(new), "status")
            {
                status.remove("config");
            }
        }
        ("", "PersistentVolume") => {
            let status = within(fields(new), "status");
            if let Some(time) = at(old, &["status", "lastPhaseTransitionTime"]) {
                fill_absent(status, "lastPhaseTransitionTime", time.clone());
            }
        }
        ("apps", "Deployment") => copy_metadata(new, old, &["labels"]),
        ("admissionregistration.k8s.io", _) => copy_metadata(
            new,
            old,
            &["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"],
        ),
        _ => {}
    }
    keep_all_but_status(fields(new), old);
}

fn copy_metadata(new: &mut Value, old: &Value, keys: &[&str]) {
    let metadata = within(fields(new), "metadata");
    let empty = Value::Null;
    for key in keys {
        copy(metadata, old.get("metadata").unwrap_or(&empty), key);
    }
}

fn keep_all_but_status(new: &mut Map<String, Value>, old: &Value) {
    let kept = |key: &str| matches!(key, "metadata" | "status" | "apiVersion" | "kind");
    new.retain(|key, _| kept(key));
    for (key, value) in entries(old, &[]).filter(|(key, _)| !kept(key)) {
        new.insert(key.clone(), value.clone());
    }
}
