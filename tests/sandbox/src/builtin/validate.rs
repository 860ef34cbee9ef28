//! Validation of every kind: which rules run, in the order in which they complain.

use muster_kube::FieldError;
use serde_json::Value;

use super::{NameRule, metadata, name_rule, namespaced, pod};

mod config;
mod event;
mod job;
mod network;
mod placement;
mod rbac;
mod selector;
mod workload;

const RBAC: &str = "rbac.authorization.k8s.io";

/// See [`super::validate_create`].
pub(super) fn create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let Some(namespaced) = namespaced(group, kind) else { return Vec::new() };
    let mut errors = Vec::new();
    if (group, kind) == ("", "Event") {
        event::legacy(object, "reportingComponent", &mut errors);
        if errors.is_empty() {
            errors = metadata::validate(object, true, NameRule::PathSegment);
        }
        return errors;
    }
    if kind == "Event" {
        event::strict(object, &mut errors);
        return errors;
    }
    validate_object(group, kind, object, namespaced, &mut errors);
    match (group, kind) {
        ("", "Pod") => errors.extend(pod::validate_create(object)),
        ("batch", "CronJob") => job::cron_name(object, &mut errors),
        ("apps", "ControllerRevision") => workload::revision_data(object, &mut errors),
        _ => {}
    }
    errors
}

/// Metadata and body of an object, new or changed.
fn validate_object(
    group: &str,
    kind: &str,
    object: &Value,
    namespaced: bool,
    errors: &mut Vec<FieldError>,
) {
    errors.extend(metadata::validate(object, namespaced, name_rule(group, kind)));
    if checks_finalizers(group) {
        metadata::known_finalizers(object, errors);
    }
    match (group, kind) {
        ("batch", "Job") => job::generated_selector(object, errors),
        ("", "Node") => placement::taints(object, errors),
        _ => {}
    }
    body(group, kind, object, errors);
}

/// Whether the group refuses finalizers that are neither known nor qualified by a domain.
fn checks_finalizers(group: &str) -> bool {
    matches!(
        group,
        "" | "apps"
            | "batch"
            | "autoscaling"
            | "networking.k8s.io"
            | "scheduling.k8s.io"
            | "storage.k8s.io"
            | "certificates.k8s.io"
    ) || group == RBAC
}

/// Rules that hold for new and changed objects alike.
fn body(group: &str, kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match (group, kind) {
        ("", "ConfigMap") => config::config_map(object, errors),
        ("", "Secret") => config::secret(object, errors),
        ("", "Service") => network::service(object, errors),
        ("apps", "Deployment") => workload::deployment(object, errors),
        ("apps", "ReplicaSet") => workload::replica_set(object, errors),
        ("apps", "StatefulSet") => workload::stateful_set(object, errors),
        ("apps", "DaemonSet") => workload::daemon_set(object, errors),
        ("apps", "ControllerRevision") => workload::revision(object, errors),
        ("", "ReplicationController") => workload::replication_controller(object, errors),
        ("batch", "Job") => job::validate(object, errors),
        ("batch", "CronJob") => job::validate_cron(object, errors),
        ("", "PodTemplate") => {
            let empty = Value::Null;
            pod::validate_template(object.get("template").unwrap_or(&empty), "template", errors);
        }
        ("policy", "PodDisruptionBudget") => placement::disruption_budget(object, errors),
        ("scheduling.k8s.io", "PriorityClass") => placement::priority_class(object, errors),
        ("coordination.k8s.io", "Lease") => placement::lease(object, errors),
        (RBAC, "Role" | "ClusterRole") => rbac::rules(object, kind == "Role", errors),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding(object, kind == "RoleBinding", errors);
        }
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object, errors),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object, errors),
        _ => {}
    }
}

/// See [`super::validate_update`].
pub(super) fn update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let Some(namespaced) = namespaced(group, kind) else { return Vec::new() };
    let mut errors = common(new, old, namespaced);
    if kind == "Event" {
        let reporter = if group.is_empty() { "reportingComponent" } else { "reportingController" };
        if group.is_empty() {
            event::legacy(new, reporter, &mut errors);
        } else {
            event::strict_update(new, old, &mut errors);
        }
        return errors;
    }
    // what upstream checks twice is complained about twice
    if checked_whole(group, kind) {
        validate_object(group, kind, new, namespaced, &mut errors);
    }
    if group == RBAC {
        validate_object(group, kind, new, namespaced, &mut errors);
    }
    if !matches!((group, kind), ("", "LimitRange") | ("policy", _) | ("discovery.k8s.io", _)) {
        changed_metadata(group, new, old, &mut errors);
    }
    match (group, kind) {
        ("", "Pod") => {
            validate_object(group, kind, new, namespaced, &mut errors);
            errors.extend(pod::validate_update(new, old));
        }
        ("", "ConfigMap" | "Secret") => {
            config::unchanged(kind, new, old, &mut errors);
            validate_object(group, kind, new, namespaced, &mut errors);
        }
        ("", "Service") => {
            network::service_update(new, old, &mut errors);
            body(group, kind, new, &mut errors);
        }
        ("", "Node") => placement::node_update(new, old, &mut errors),
        ("", "PersistentVolumeClaim") => config::claim_update(new, old, &mut errors),
        ("apps", "DaemonSet") => {
            workload::same(new, old, "selector", &mut errors);
            body(group, kind, new, &mut errors);
        }
        ("apps", "Deployment" | "ReplicaSet") => {
            body(group, kind, new, &mut errors);
            workload::same(new, old, "selector", &mut errors);
        }
        ("apps", "StatefulSet") => {
            body(group, kind, new, &mut errors);
            workload::stateful_set_update(new, old, &mut errors);
        }
        ("apps", "ControllerRevision") => {
            validate_object(group, kind, new, namespaced, &mut errors);
            metadata::immutable("data", new.get("data"), old.get("data"), &mut errors);
        }
        ("batch", "Job") => {
            body(group, kind, new, &mut errors);
            job::unchanged(new, old, &mut errors);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            placement::priority_class_update(new, old, &mut errors);
        }
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_update(new, old, &mut errors);
        }
        ("storage.k8s.io", "StorageClass") => {
            config::storage_class_update(new, old, &mut errors);
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            let kind = "addressType";
            metadata::immutable(kind, new.get(kind), old.get(kind), &mut errors);
        }
        _ if !checked_whole(group, kind) => body(group, kind, new, &mut errors),
        _ => {}
    }
    errors
}

/// Whether an update is first checked as if the object were new.
fn checked_whole(group: &str, kind: &str) -> bool {
    match (group, kind) {
        ("", "Namespace" | "Node" | "PersistentVolume" | "PersistentVolumeClaim") => true,
        ("", "ReplicationController" | "LimitRange") => true,
        ("batch", "Job") | ("networking.k8s.io", _) | ("storage.k8s.io", "StorageClass") => true,
        ("discovery.k8s.io", _) => true,
        (group, _) => group == RBAC,
    }
}

/// The metadata of a change, as the kind's own rules check it.
fn changed_metadata(group: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    errors.extend(metadata::validate_update(new, old));
    if checks_finalizers(group) {
        metadata::known_finalizers(new, errors);
    }
}

/// What the server checks of any update, before the kind's own rules.
fn common(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = metadata::validate(new, namespaced, NameRule::PathSegment);
    errors.extend(metadata::validate_update(new, old));
    errors
}

/// See [`super::validate_status`].
pub(super) fn status(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let Some(namespaced) = namespaced(group, kind) else { return Vec::new() };
    let mut errors = common(new, old, namespaced);
    if group != "policy" {
        changed_metadata(group, new, old, &mut errors);
    }
    match (group, kind) {
        ("", "Pod") => errors.extend(pod::validate_status(new, old)),
        ("", "Namespace") => placement::namespace_phase(new, &mut errors),
        ("", "Node") => placement::node_update(new, old, &mut errors),
        _ => workload::status_counts(group, kind, new, &mut errors),
    }
    errors
}
