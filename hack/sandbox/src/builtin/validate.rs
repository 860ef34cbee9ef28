//! Validation of every kind: which rules run, in the order in which they complain.

use muster_objects::status::FieldError;
use serde_json::Value;

use super::{NameRule, metadata, name_rule, namespaced, pod};

mod config;
mod event;
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
    errors = metadata::validate(object, namespaced, name_rule(group, kind));
    body(group, kind, object, &mut errors);
    match (group, kind) {
        ("", "Pod") => errors.extend(pod::validate_create(object)),
        ("batch", "Job") => workload::generated_selector(object, &mut errors),
        ("batch", "CronJob") => workload::cron_name(object, &mut errors),
        ("", "Node") => placement::taints(object, &mut errors),
        _ => {}
    }
    errors
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
        ("", "ReplicationController") => workload::replication_controller(object, errors),
        ("batch", "Job") => workload::job(object, errors),
        ("batch", "CronJob") => workload::cron_job(object, errors),
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
    errors.extend(metadata::validate_update(new, old));
    match (group, kind) {
        ("", "Pod") => errors.extend(pod::validate_update(new, old)),
        ("", "ConfigMap" | "Secret") => config::unchanged(kind, new, old, &mut errors),
        ("", "Service") => network::service_update(new, old, &mut errors),
        ("", "Node") => placement::node_update(new, old, &mut errors),
        ("apps", "DaemonSet") => {
            workload::same(new, old, "selector", &mut errors);
        }
        _ => {}
    }
    body(group, kind, new, &mut errors);
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet") => workload::same(new, old, "selector", &mut errors),
        ("apps", "StatefulSet") => workload::stateful_set_update(new, old, &mut errors),
        ("batch", "Job") => workload::job_update(new, old, &mut errors),
        ("scheduling.k8s.io", "PriorityClass") => {
            placement::priority_class_update(new, old, &mut errors);
        }
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_update(new, old, &mut errors);
        }
        ("", "PersistentVolumeClaim") => config::claim_update(new, old, &mut errors),
        ("storage.k8s.io", "StorageClass") => {
            config::storage_class_update(new, old, &mut errors);
        }
        _ => {}
    }
    errors
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
    errors.extend(metadata::validate_update(new, old));
    match (group, kind) {
        ("", "Pod") => errors.extend(pod::validate_status(new, old)),
        ("", "Node") => placement::node_update(new, old, &mut errors),
        _ => workload::status_counts(group, kind, new, &mut errors),
    }
    errors
}
