//! Deployments and the other sets of pods.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::placement::{amount_or_percent, at_most_all};
use super::selector;
use crate::builtin::field::{at, copy, fields, list, number, text};
use crate::builtin::metadata::{complain, forbidden, immutable, invalid, not_supported, required};
use crate::builtin::names;
use crate::builtin::pod::validate_template;

pub(super) static EMPTY: Value = Value::Null;

pub(super) fn not_negative(object: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(number) = number(object, path).filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(invalid(&path.join("."), &json!(number), detail));
    }
}

pub(super) fn template(object: &Value) -> &Value {
    at(object, &["spec", "template"]).unwrap_or(&EMPTY)
}

pub(super) fn template_labels(object: &Value) -> &Value {
    at(object, &["spec", "template", "metadata", "labels"]).unwrap_or(&EMPTY)
}

pub(super) fn mismatch(object: &Value) -> FieldError {
    let detail = "`selector` does not match template `labels`";
    invalid("spec.template.metadata.labels", template_labels(object), detail)
}

/// Selector and template of a set whose pods run for ever.
fn set(object: &Value, kind: &str, called: &str, errors: &mut Vec<FieldError>) {
    let found = at(object, &["spec", "selector"]);
    match found {
        None => errors.push(required("spec.selector", "")),
        Some(one) => {
            selector::check(one, "spec.selector", errors);
            if selector::is_empty(one) {
                let detail = format!("empty selector is invalid for {called}");
                errors.push(invalid("spec.selector", one, detail));
            }
        }
    }
    match found {
        None => errors.push(mismatch(object)),
        Some(one) if !selector::is_sound(one) => {
            let detail = if kind == "StatefulSet" { "" } else { "invalid label selector" };
            errors.push(invalid("spec.selector", one, detail));
            return;
        }
        Some(one)
            if !selector::is_empty(one) && !selector::matches(one, template_labels(object)) =>
        {
            errors.push(mismatch(object));
        }
        _ => {}
    }
    validate_template(template(object), "spec.template", errors);
    runs_for_ever(object, kind, errors);
}

fn runs_for_ever(object: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let policy = text(object, &["spec", "template", "spec", "restartPolicy"]);
    if policy != "Always" {
        errors.push(not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if at(object, &["spec", "template", "spec", "activeDeadlineSeconds"]).is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
}

pub(super) fn deployment(object: &Value, errors: &mut Vec<FieldError>) {
    not_negative(object, &["spec", "replicas"], errors);
    set(object, "ReplicaSet", "deployment", errors);
    deployment_strategy(object, errors);
    not_negative(object, &["spec", "minReadySeconds"], errors);
    not_negative(object, &["spec", "revisionHistoryLimit"], errors);
    not_negative(object, &["spec", "progressDeadlineSeconds"], errors);
    let ready = number(object, &["spec", "minReadySeconds"]).unwrap_or_default();
    if let Some(seconds) = number(object, &["spec", "progressDeadlineSeconds"])
        && seconds <= ready
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(invalid("spec.progressDeadlineSeconds", &json!(seconds), detail));
    }
}

fn deployment_strategy(object: &Value, errors: &mut Vec<FieldError>) {
    let strategy = at(object, &["spec", "strategy"]).unwrap_or(&EMPTY);
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, &["type"]) {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => {
            const DOWN: &str = "spec.strategy.rollingUpdate.maxUnavailable";
            let part = |key: &str| rolling.and_then(|r| r.get(key)).unwrap_or(&EMPTY);
            let (down, up) = (part("maxUnavailable"), part("maxSurge"));
            amount_or_percent(down, DOWN, errors);
            amount_or_percent(up, "spec.strategy.rollingUpdate.maxSurge", errors);
            let nothing = |value: &Value| value == &json!(0) || value == &json!("0%");
            if nothing(down) && nothing(up) {
                errors.push(invalid(DOWN, down, "may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(down, DOWN, errors);
        }
        _ => {
            let kinds = ["Recreate", "RollingUpdate"];
            let mut error = not_supported("spec.strategy", "", &kinds);
            error.bad_value = muster_kube::BadValue::Printed(format!(
                "{{\"Type\":{},\"RollingUpdate\":null}}",
                json!(text(strategy, &["type"]))
            ));
            errors.push(error);
        }
    }
}

/// A replica set.
pub(super) fn replica_set(object: &Value, errors: &mut Vec<FieldError>) {
    not_negative(object, &["spec", "replicas"], errors);
    not_negative(object, &["spec", "minReadySeconds"], errors);
    set(object, "ReplicaSet", "deployment", errors);
}

/// A stateful set.
pub(super) fn stateful_set(object: &Value, errors: &mut Vec<FieldError>) {
    let policy = text(object, &["spec", "podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(invalid("spec.podManagementPolicy", &json!(policy), detail));
    }
    not_negative(object, &["spec", "replicas"], errors);
    not_negative(object, &["spec", "minReadySeconds"], errors);
    let service = text(object, &["spec", "serviceName"]);
    if !service.is_empty() {
        complain(errors, "spec.serviceName", service, names::label(service));
    }
    // the controller adds a volume per claim template
    let claims = list(object, &["spec", "volumeClaimTemplates"]);
    if claims.is_empty() {
        set(object, "StatefulSet", "statefulset", errors);
        return;
    }
    let mut whole = object.clone();
    let volumes = whole["spec"]["template"]["spec"]["volumes"].take();
    let mut all: Vec<Value> = Vec::new();
    let claim_name = |claim: &Value| text(claim, &["metadata", "name"]).to_owned();
    for claim in claims {
        let name = claim_name(claim);
        let claim = json!({"claimName": name});
        all.push(json!({"name": name, "persistentVolumeClaim": claim}));
    }
    for volume in volumes.as_array().into_iter().flatten() {
        if !claims.iter().any(|claim| claim_name(claim) == text(volume, &["name"])) {
            all.push(volume.clone());
        }
    }
    whole["spec"]["template"]["spec"]["volumes"] = Value::Array(all);
    set(&whole, "StatefulSet", "statefulset", errors);
}

/// Little of a stateful set may change.
pub(super) fn stateful_set_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut spec = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").unwrap_or(&EMPTY);
    for key in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        copy(fields(&mut spec), before, key);
    }
    if spec != *before {
        errors.push(forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

/// A daemon set.
pub(super) fn daemon_set(object: &Value, errors: &mut Vec<FieldError>) {
    match at(object, &["spec", "selector"]) {
        None => errors.push(mismatch(object)),
        Some(one) => {
            selector::check(one, "spec.selector", errors);
            if selector::is_sound(one) && !selector::matches(one, template_labels(object)) {
                errors.push(mismatch(object));
            }
            if selector::is_empty(one) {
                let detail = "empty selector is invalid for daemonset";
                errors.push(invalid("spec.selector", one, detail));
            }
        }
    }
    validate_template(template(object), "spec.template", errors);
    runs_for_ever(object, "DaemonSet", errors);
    not_negative(object, &["spec", "minReadySeconds"], errors);
    not_negative(object, &["spec", "revisionHistoryLimit"], errors);
}

/// A replication controller: its selector is a plain map.
pub(super) fn replication_controller(object: &Value, errors: &mut Vec<FieldError>) {
    not_negative(object, &["spec", "minReadySeconds"], errors);
    let wanted = at(object, &["spec", "selector"]).unwrap_or(&EMPTY);
    if wanted.is_null() {
        errors.push(required("spec.selector", ""));
    }
    not_negative(object, &["spec", "replicas"], errors);
    if template(object).is_null() {
        errors.push(required("spec.template", ""));
        return;
    }
    let one = json!({"matchLabels": wanted});
    if !wanted.is_null() && !selector::matches(&one, template_labels(object)) {
        errors.push(mismatch(object));
    }
    validate_template(template(object), "spec.template", errors);
    runs_for_ever(object, "ReplicationController", errors);
}

/// A ControllerRevision, new or changed.
pub(super) fn revision(object: &Value, errors: &mut Vec<FieldError>) {
    not_negative(object, &["revision"], errors);
}

/// What a new ControllerRevision keeps; it never changes.
pub(super) fn revision_data(object: &Value, errors: &mut Vec<FieldError>) {
    match object.get("data") {
        None | Some(Value::Null) => errors.push(required("data", "data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(required("data", "data must be a valid JSON object")),
    }
}

/// A field of the spec that may not change.
pub(super) fn same(new: &Value, old: &Value, key: &str, errors: &mut Vec<FieldError>) {
    let field = format!("spec.{key}");
    immutable(&field, at(new, &["spec", key]), at(old, &["spec", key]), errors);
}

/// Counts in a status are never below zero.
pub(super) fn status_counts(group: &str, kind: &str, new: &Value, errors: &mut Vec<FieldError>) {
    let keys: &[&str] = match (group, kind) {
        ("policy", "PodDisruptionBudget") => {
            &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
        }
        ("apps", "Deployment") => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ],
        ("apps", "ReplicaSet" | "StatefulSet") => {
            &["replicas", "readyReplicas", "availableReplicas", "observedGeneration"]
        }
        ("batch", "Job") => &["active", "succeeded", "failed", "ready", "terminating"],
        _ => &[],
    };
    for key in keys {
        not_negative(new, &["status", key], errors);
    }
    let active = number(new, &["status", "active"]).unwrap_or_default();
    if let Some(ready) = number(new, &["status", "ready"]).filter(|ready| *ready > active)
        && kind == "Job"
    {
        let detail = "cannot set more ready pods than active";
        errors.push(invalid("status.ready", &json!(ready), detail));
    }
}
