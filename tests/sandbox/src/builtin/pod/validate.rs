//! What a pod may ask for.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::super::field::{at, entries, list, number, text, truth};
use super::super::metadata::{
    annotations, complain, duplicate, forbidden, invalid, labels, not_supported, required,
};
use super::super::names;
use super::container;
use super::volume;

/// Checks of a new pod, without its metadata.
pub(in super::super) fn validate_create(pod: &Value) -> Vec<FieldError> {
    let mut errors = validate_pod(pod);
    if !list(pod, &["spec", "ephemeralContainers"]).is_empty() {
        errors.push(forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !text(pod, &["spec", "nodeName"]).is_empty()
        && !list(pod, &["spec", "schedulingGates"]).is_empty()
    {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(forbidden("spec.nodeName", detail));
    }
    errors
}

/// What holds for a pod at any time.
pub(super) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let empty = Value::Null;
    let spec = pod.get("spec").unwrap_or(&empty);
    let mut errors = Vec::new();
    pod_annotations(pod, "metadata.annotations", &mut errors);
    validate_spec(spec, "spec", true, &mut errors);
    if text(spec, &["serviceAccountName"]).is_empty() {
        for (place, volume) in list(spec, &["volumes"]).iter().enumerate() {
            for (at, source) in list(volume, &["projected", "sources"]).iter().enumerate() {
                if source.get("serviceAccountToken").is_some() {
                    errors.push(forbidden(
                        format!(
                            "spec.volumes[{place}].projected.sources[{at}].serviceAccountToken"
                        ),
                        "must not be specified when serviceAccountName is not set",
                    ));
                }
            }
        }
    }
    for kind in ["containers", "initContainers"] {
        for (place, container) in list(spec, &[kind]).iter().enumerate() {
            trimmed_image(container, &format!("spec.{kind}[{place}].image"), &mut errors);
        }
    }
    errors
}

pub(super) fn trimmed_image(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let image = text(container, &["image"]);
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(invalid(field, &json!(image), detail));
    }
}

fn pod_annotations(holder: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(value) = at(holder, &["metadata", "annotations", cost]) {
        let text = value.as_str().unwrap_or_default();
        let number = text.parse::<i32>().ok();
        if number.is_none() || text.starts_with('+') || (text.starts_with('0') && text.len() > 1) {
            let field = format!("{field}[{cost}]");
            errors.push(invalid(&field, value, "must be a 32bit integer"));
        }
    }
}

/// Checks of a pod template at `field`.
pub(in super::super) fn validate_template(
    template: &Value,
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    let empty = Value::Null;
    let meta = template.get("metadata").unwrap_or(&empty);
    labels(meta.get("labels").unwrap_or(&empty), &format!("{field}.labels"), errors);
    annotations(meta, &format!("{field}.annotations"), errors);
    pod_annotations(template, &format!("{field}.annotations"), errors);
    let spec = template.get("spec").unwrap_or(&empty);
    validate_spec(spec, &format!("{field}.spec"), false, errors);
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(forbidden(format!("{field}.spec.ephemeralContainers"), detail));
    }
}

fn validate_spec(spec: &Value, field: &str, is_pod: bool, errors: &mut Vec<FieldError>) {
    let volumes = volume::validate_all(spec, &format!("{field}.volumes"), errors);
    container::validate_all(spec, &volumes, field, errors);
    if truth(spec, &["hostNetwork"]) {
        for (place, container) in list(spec, &["containers"]).iter().enumerate() {
            for (at, port) in list(container, &["ports"]).iter().enumerate() {
                let host = number(port, &["hostPort"]).unwrap_or_default();
                if (is_pod || host != 0) && Some(host) != number(port, &["containerPort"]) {
                    errors.push(invalid(
                        &format!("{field}.containers[{place}].ports[{at}].hostPort"),
                        &json!(host),
                        "must match `containerPort` when `hostNetwork` is true",
                    ));
                }
            }
        }
    }
    one_of(spec, "restartPolicy", field, &["Always", "OnFailure", "Never"], errors);
    one_of(
        spec,
        "dnsPolicy",
        field,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        errors,
    );
    let empty = Value::Null;
    labels(spec.get("nodeSelector").unwrap_or(&empty), &format!("{field}.nodeSelector"), errors);
    gates(spec, field, errors);
    spread(spec, field, errors);
    for (key, label) in [("serviceAccountName", false), ("nodeName", false)] {
        named(spec, key, field, label, errors);
    }
    if let Some(seconds) = number(spec, &["activeDeadlineSeconds"])
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = names::out_of_range(1, i64::from(i32::MAX));
        errors.push(invalid(&format!("{field}.activeDeadlineSeconds"), &json!(seconds), detail));
    }
    for key in ["hostname", "subdomain"] {
        named(spec, key, field, true, errors);
    }
    tolerations(spec, &format!("{field}.tolerations"), errors);
    for key in ["priorityClassName", "runtimeClassName"] {
        named(spec, key, field, false, errors);
    }
}

fn named(spec: &Value, key: &str, field: &str, label: bool, errors: &mut Vec<FieldError>) {
    let name = text(spec, &[key]);
    if !name.is_empty() {
        let wrong = if label { names::label(name) } else { names::subdomain(name) };
        complain(errors, &format!("{field}.{key}"), name, wrong);
    }
}

/// A text that must be among some; an empty one is missing.
pub(super) fn one_of(
    holder: &Value,
    key: &str,
    field: &str,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = text(holder, &[key]);
    let field = format!("{field}.{key}");
    if value.is_empty() {
        errors.push(required(field, ""));
    } else if !supported.contains(&value) {
        errors.push(not_supported(&field, value, supported));
    }
}

fn gates(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let name = text(gate, &["conditionType"]);
        let field = format!("{field}.readinessGates[{place}].conditionType");
        complain(errors, &field, name, names::qualified(name));
    }
    let gates = list(spec, &["schedulingGates"]);
    for (place, gate) in gates.iter().enumerate() {
        let name = text(gate, &["name"]);
        let field = format!("{field}.schedulingGates[{place}]");
        complain(errors, &field, name, names::qualified(name));
        if gates[..place].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(duplicate(&field, &json!(name)));
        }
    }
}

fn spread(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let field = format!("{field}.topologySpreadConstraints[{place}]");
        let skew = number(constraint, &["maxSkew"]).unwrap_or_default();
        if skew <= 0 {
            let detail = "must be greater than zero";
            errors.push(invalid(&format!("{field}.maxSkew"), &json!(skew), detail));
        }
        if text(constraint, &["topologyKey"]).is_empty() {
            errors.push(required(format!("{field}.topologyKey"), "can not be empty"));
        }
        let action = text(constraint, &["whenUnsatisfiable"]);
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let field = format!("{field}.whenUnsatisfiable");
            errors.push(not_supported(&field, action, &["DoNotSchedule", "ScheduleAnyway"]));
        }
        label_keys(constraint, &field, errors);
    }
}

/// Keys whose values come from the pod itself do not stand in the selector too.
fn label_keys(term: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let keys = list(term, &["matchLabelKeys"]);
    if keys.is_empty() {
        return;
    }
    let Some(selector) = at(term, &["labelSelector"]) else {
        let detail = "must not be specified when labelSelector is not set";
        errors.push(forbidden(format!("{field}.matchLabelKeys"), detail));
        return;
    };
    for (place, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        complain(errors, &format!("{field}.matchLabelKeys[{place}]"), key, names::qualified(key));
    }
    let mut seen: Vec<&str> =
        entries(selector, &["matchLabels"]).map(|(key, _)| key.as_str()).collect();
    for rule in list(selector, &["matchExpressions"]) {
        let key = text(rule, &["key"]);
        if let Some(place) = keys.iter().position(|known| known == key)
            && seen.contains(&key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(invalid(&format!("{field}[{place}]"), &json!(key), detail));
        }
        seen.push(key);
    }
}

/// Tolerations at `field`.
pub(super) fn tolerations(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let field = format!("{field}[{place}]");
        let key = text(toleration, &["key"]);
        let operator = text(toleration, &["operator"]);
        let value = text(toleration, &["value"]);
        let effect = text(toleration, &["effect"]);
        if !key.is_empty() {
            complain(errors, &format!("{field}.key"), key, names::qualified(key));
        }
        let operator_field = format!("{field}.operator");
        if key.is_empty() && operator != "Exists" {
            errors.push(invalid(
                &operator_field,
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if number(toleration, &["tolerationSeconds"]).is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(invalid(&format!("{field}.effect"), &json!(effect), detail));
        }
        match operator {
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.push(invalid(&operator_field, &json!(value), wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(invalid(&operator_field, &json!(value), detail));
            }
            "Exists" => {}
            other => errors.push(not_supported(&operator_field, other, &["Equal", "Exists"])),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            errors.push(not_supported(&format!("{field}.effect"), effect, &effects));
        }
    }
}
