//! What a pod may ask for, and what may change in it.

use muster_objects::status::FieldError;
use serde_json::{Value, json};

use super::super::field::{at, entries, list, number, text, truth};
use super::super::metadata::{
    annotations, complain, duplicate, forbidden, immutable, invalid, labels, not_supported,
    required,
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
fn validate_pod(pod: &Value) -> Vec<FieldError> {
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

fn trimmed_image(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
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
    }
}

fn tolerations(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
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
                difference(before, &munged)
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

/// The fields that differ, before and after.
fn difference(before: &Value, after: &Value) -> String {
    let empty = serde_json::Map::new();
    let (old, new) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let mut text = String::new();
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys.into_iter().filter(|key| old.get(*key) != new.get(*key)) {
        for (sign, value) in [('-', old.get(key)), ('+', new.get(key))] {
            if let Some(value) = value {
                text.push_str(&format!("{sign} \"{key}\": {value}\n"));
            }
        }
    }
    text
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
