//! Jobs, cron jobs, deployments and the other sets of pods.

use muster_objects::status::FieldError;
use serde_json::{Value, json};

use super::placement::{amount_or_percent, at_most_all};
use super::selector;
use crate::builtin::field::{at, copy, fields, list, number, text, truth};
use crate::builtin::metadata::{complain, forbidden, immutable, invalid, not_supported, required};
use crate::builtin::names;
use crate::builtin::pod::validate_template;

static EMPTY: Value = Value::Null;

fn not_negative(object: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(number) = number(object, path).filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(invalid(&path.join("."), &json!(number), detail));
    }
}

fn template(object: &Value) -> &Value {
    at(object, &["spec", "template"]).unwrap_or(&EMPTY)
}

fn template_labels(object: &Value) -> &Value {
    at(object, &["spec", "template", "metadata", "labels"]).unwrap_or(&EMPTY)
}

fn mismatch(object: &Value) -> FieldError {
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

/// A deployment.
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
            error.value = Some(format!(
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

/// A job, and the job in a cron job.
pub(super) fn job(object: &Value, errors: &mut Vec<FieldError>) {
    job_spec(object, "spec", errors);
    match at(object, &["spec", "selector"]) {
        None => errors.push(required("spec.selector", "")),
        Some(one) => {
            selector::check(one, "spec.selector", errors);
            if selector::is_sound(one) && !selector::matches(one, template_labels(object)) {
                errors.push(mismatch(object));
            }
        }
    }
    let indexed = text(object, &["spec", "completionMode"]) == "Indexed";
    let name = text(object, &["metadata", "name"]);
    if let Some(count) = number(object, &["spec", "completions"]).filter(|n| indexed && *n > 0) {
        let last = format!("{name}-{}", count - 1);
        if !names::label(&last).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {last}");
            errors.push(invalid("metadata.name", &json!(name), detail));
        }
    }
}

fn job_spec(holder: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let spec = holder.get("spec").unwrap_or(&EMPTY);
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if let Some(number) = number(spec, &[key]).filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(invalid(&format!("{field}.{key}"), &json!(number), detail));
        }
    }
    let mode = text(spec, &["completionMode"]);
    if !matches!(mode, "" | "NonIndexed" | "Indexed") {
        let field = format!("{field}.completionMode");
        errors.push(not_supported(&field, mode, &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" {
        if number(spec, &["completions"]).is_none() {
            let field = format!("{field}.completions");
            errors.push(required(field, "when completion mode is Indexed"));
        }
        if let Some(count) = number(spec, &["parallelism"]).filter(|n| *n > 100_000) {
            let detail = "must be less than or equal to 100000 when completion mode is Indexed";
            errors.push(invalid(&format!("{field}.parallelism"), &json!(count), detail));
        }
    } else {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = number(spec, &[key]) {
                let detail = "requires indexed completion mode";
                errors.push(invalid(&format!("{field}.{key}"), &json!(number), detail));
            }
        }
    }
    let replace = text(spec, &["podReplacementPolicy"]);
    if at(spec, &["podFailurePolicy"]).is_some() {
        if replace != "Failed" {
            let field = format!("{field}.podReplacementPolicy");
            errors.push(not_supported(&field, replace, &["Failed"]));
        }
    } else if !matches!(replace, "" | "Failed" | "TerminatingOrFailed") {
        let field = format!("{field}.podReplacementPolicy");
        errors.push(not_supported(&field, replace, &["Failed", "TerminatingOrFailed"]));
    }
    let template = spec.get("template").unwrap_or(&EMPTY);
    validate_template(template, &format!("{field}.template"), errors);
    let policy = text(template, &["spec", "restartPolicy"]);
    let policy_field = format!("{field}.template.spec.restartPolicy");
    match policy {
        "Always" | "" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(required(policy_field, detail));
        }
        "OnFailure" if at(spec, &["podFailurePolicy"]).is_some() => errors.push(invalid(
            &policy_field,
            &json!(policy),
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        other => errors.push(not_supported(&policy_field, other, &["OnFailure", "Never"])),
    }
}

/// The labels that the server gave a job's pods are those of this job.
pub(super) fn generated_selector(object: &Value, errors: &mut Vec<FieldError>) {
    if truth(object, &["spec", "manualSelector"]) || at(object, &["spec", "selector"]).is_none() {
        return;
    }
    let uid = text(object, &["metadata", "uid"]);
    let name = text(object, &["metadata", "name"]);
    if uid.is_empty() {
        errors.push(required("metadata.uid", ""));
    }
    let labels = template_labels(object);
    for (key, wanted) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let field = format!("spec.template.metadata.labels[{key}]");
        let detail = format!("must be '{wanted}'");
        match at(labels, &[key]).and_then(Value::as_str) {
            None => errors.push(required(field, &detail)),
            Some(found) if found != wanted => errors.push(invalid(&field, labels, detail)),
            Some(_) => {}
        }
    }
}

/// Little of a job may change once it is there.
pub(super) fn job_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let part = |object: &Value, key: &str| at(object, &["spec", key]).cloned();
    let keep = |key: &str, errors: &mut Vec<FieldError>| {
        let field = format!("spec.{key}");
        immutable(&field, part(new, key).as_ref(), part(old, key).as_ref(), errors);
    };
    if text(new, &["spec", "completionMode"]) == "Indexed" {
        let (now, before) = (part(new, "completions"), part(old, "completions"));
        if let Some(now) = now
            && Some(&now) != before.as_ref()
            && Some(&now) != part(new, "parallelism").as_ref()
        {
            let detail = "can only be modified in tandem with spec.parallelism";
            errors.push(invalid("spec.completions", &now, detail));
        }
    } else {
        keep("completions", errors);
    }
    keep("selector", errors);
    let mut before = old.get("spec").and_then(|s| s.get("template")).cloned().unwrap_or_default();
    let may_move = truth(old, &["spec", "suspend"]) && at(old, &["status", "startTime"]).is_none();
    if may_move {
        unpin(&mut before, template(new));
    }
    immutable("spec.template", Some(template(new)), Some(&before), errors);
    for key in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        keep(key, errors);
    }
}

/// A suspended job that never started may still choose where its pods run.
fn unpin(before: &mut Value, now: &Value) {
    let empty = Value::Null;
    let spec = now.get("spec").unwrap_or(&empty);
    let meta = now.get("metadata").unwrap_or(&empty);
    let fields_ = fields(before);
    for key in ["annotations", "labels"] {
        copy(crate::builtin::field::within(fields_, "metadata"), meta, key);
    }
    let old_spec = crate::builtin::field::within(fields_, "spec");
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy(old_spec, spec, key);
    }
    match at(spec, &["affinity"]) {
        None => {
            let only_nodes = old_spec.get("affinity").is_some_and(|affinity| {
                affinity.as_object().is_some_and(|a| a.keys().all(|key| key == "nodeAffinity"))
            });
            if only_nodes {
                old_spec.remove("affinity");
            }
        }
        Some(affinity) => {
            let kept = crate::builtin::field::within(old_spec, "affinity");
            copy(kept, affinity, "nodeAffinity");
        }
    }
}

/// A cron job.
pub(super) fn cron_job(object: &Value, errors: &mut Vec<FieldError>) {
    if text(object, &["spec", "schedule"]).is_empty() {
        errors.push(required("spec.schedule", ""));
    }
    not_negative(object, &["spec", "startingDeadlineSeconds"], errors);
    let policy = text(object, &["spec", "concurrencyPolicy"]);
    let policies = ["Allow", "Forbid", "Replace"];
    if policy.is_empty() {
        errors.push(required("spec.concurrencyPolicy", ""));
    } else if !policies.contains(&policy) {
        errors.push(not_supported("spec.concurrencyPolicy", policy, &policies));
    }
    let template = at(object, &["spec", "jobTemplate"]).unwrap_or(&EMPTY);
    job_spec(template, "spec.jobTemplate.spec", errors);
    not_negative(object, &["spec", "successfulJobsHistoryLimit"], errors);
    not_negative(object, &["spec", "failedJobsHistoryLimit"], errors);
}

/// A cron job's name leaves room for what its jobs add.
pub(super) fn cron_name(object: &Value, errors: &mut Vec<FieldError>) {
    let name = text(object, &["metadata", "name"]);
    if name.len() > 52 {
        errors.push(invalid("metadata.name", &json!(name), "must be no more than 52 characters"));
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
}
