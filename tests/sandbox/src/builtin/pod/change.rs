//! What may change in a pod, and in its status.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::super::field::{at, entries, list, number, text};
use super::super::internal::pod_spec_difference;
use super::super::metadata::{forbidden, immutable, invalid, required};
use super::super::names;
use super::validate::{tolerations, trimmed_image, validate_pod};

/// Checks of a changed pod, without what holds for all metadata.
pub(in super::super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_pod(new);
    for kind in ["containers", "initContainers"] {
        let containers = list(new, &["spec", kind]);
        if containers.len() != list(old, &["spec", kind]).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(forbidden(format!("spec.{kind}"), detail));
            return errors;
        }
        for (place, container) in containers.iter().enumerate() {
            let field = format!("spec.{kind}[{place}].image");
            if text(container, &["image"]).is_empty() {
                errors.push(required(field.as_str(), ""));
            }
            trimmed_image(container, &field, &mut errors);
        }
    }
    if !deadline(new, old, &mut errors) {
        return errors;
    }
    added_tolerations(new, old, &mut errors);
    removed_gates(new, old, &mut errors);
    let (Some(spec), Some(before)) = (new.get("spec"), old.get("spec")) else { return errors };
    if spec == before {
        return errors;
    }
    let munged = munged(spec, before, &mut errors);
    if munged != *before {
        errors.push(forbidden(
            "spec",
            format!(
                "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n{}",
                pod_spec_difference(before, &munged)
            ),
        ));
    }
    errors
}

/// Whether checking may go on.
fn deadline(new: &Value, old: &Value, errors: &mut Vec<FieldError>) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let path = ["spec", "activeDeadlineSeconds"];
    match (number(new, &path), number(old, &path)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let detail = names::out_of_range(0, i64::from(i32::MAX));
            errors.push(invalid(FIELD, &json!(new), detail));
            false
        }
        (Some(new), Some(old)) if old < new => {
            let detail = "must be less than or equal to previous value";
            errors.push(invalid(FIELD, &json!(new), detail));
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(invalid(FIELD, &Value::Null, detail));
            true
        }
        _ => true,
    }
}

fn added_tolerations(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.tolerations";
    let plain = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(fields) = &mut toleration {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<Value> = list(new, &["spec", "tolerations"]).iter().map(plain).collect();
    if list(old, &["spec", "tolerations"]).iter().any(|old| !now.contains(&plain(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(forbidden(FIELD, detail));
        return;
    }
    if let Some(spec) = new.get("spec") {
        tolerations(spec, FIELD, errors);
    }
}

fn removed_gates(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let known = list(old, &["spec", "schedulingGates"]);
    for (place, gate) in list(new, &["spec", "schedulingGates"]).iter().enumerate() {
        if !known.contains(gate) {
            let name = text(gate, &["name"]);
            errors.push(forbidden(
                format!("spec.schedulingGates[{place}].name"),
                format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            ));
        }
    }
}

/// The new spec with all that may change put back; what still differs may not.
fn munged(spec: &Value, before: &Value, errors: &mut Vec<FieldError>) -> Value {
    let mut munged = spec.clone();
    for kind in ["containers", "initContainers"] {
        let known = list(before, &[kind]);
        if let Some(containers) = munged.get_mut(kind).and_then(Value::as_array_mut) {
            for (container, known) in containers.iter_mut().zip(known) {
                let fields = super::fields(container);
                super::copy(fields, known, "image");
            }
        }
    }
    let fields = super::fields(&mut munged);
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        super::copy(fields, before, key);
    }
    let grace = "terminationGracePeriodSeconds";
    if number(before, &[grace]).is_some_and(|old| old < 0)
        && fields.get(grace).and_then(Value::as_i64) == Some(1)
    {
        super::copy(fields, before, grace);
    }
    if !list(before, &["schedulingGates"]).is_empty() {
        let kept = entries(before, &["nodeSelector"])
            .all(|(key, value)| at(spec, &["nodeSelector", key]) == Some(value));
        if !kept {
            errors.push(invalid(
                "spec.nodeSelector",
                spec.get("nodeSelector").unwrap_or(&Value::Null),
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ));
        }
        super::copy(fields, before, "nodeSelector");
        node_affinity(fields, before);
    }
    munged
}

/// A gated pod's node affinity may still change.
fn node_affinity(fields: &mut serde_json::Map<String, Value>, before: &Value) {
    let known = at(before, &["affinity", "nodeAffinity"]);
    let affinity = super::within(fields, "affinity");
    match known {
        Some(known) => {
            affinity.insert("nodeAffinity".to_owned(), known.clone());
        }
        None => {
            affinity.remove("nodeAffinity");
        }
    }
    if affinity.is_empty() && before.get("affinity").is_none() {
        fields.remove("affinity");
    }
}

/// Checks of a changed status, without what holds for all metadata.
pub(in super::super) fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (place, condition) in list(new, &["status", "conditions"]).iter().enumerate() {
        if number(condition, &["observedGeneration"]).is_some_and(|number| number < 0) {
            errors.push(invalid(
                &format!("status.conditions[{place}].observedGeneration"),
                &condition["observedGeneration"],
                "must be greater than or equal to zero",
            ));
        }
    }
    let class = |pod: &Value| at(pod, &["status", "qosClass"]).cloned();
    immutable("status.qosClass", class(new).as_ref(), class(old).as_ref(), &mut errors);
    for (kind, statuses) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        ended_stay_ended(new, old, kind, statuses, &mut errors);
    }
    errors
}

/// A container that has ended and may not start again stays ended.
fn ended_stay_ended(
    new: &Value,
    old: &Value,
    kind: &str,
    statuses: &str,
    errors: &mut Vec<FieldError>,
) {
    let policy = text(old, &["spec", "restartPolicy"]);
    for (place, before) in list(old, &["status", statuses]).iter().enumerate() {
        let Some(ended) = at(before, &["state", "terminated"]) else { continue };
        let name = text(before, &["name"]);
        let after = list(new, &["status", statuses]).iter().find(|s| text(s, &["name"]) == name);
        let Some(after) = after else { continue };
        if at(after, &["state", "terminated"]).is_some() {
            continue;
        }
        let failed = number(ended, &["exitCode"]).unwrap_or_default() != 0;
        let container = list(old, &["spec", kind]).iter().find(|c| text(c, &["name"]) == name);
        let own = container.map_or("", |container| text(container, &["restartPolicy"]));
        let restarts = own == "Always" || policy == "Always" || (policy == "OnFailure" && failed);
        if !restarts {
            errors.push(forbidden(
                format!("status.{statuses}[{place}].state"),
                "may not be transitioned to non-terminated state",
            ));
        }
    }
}
