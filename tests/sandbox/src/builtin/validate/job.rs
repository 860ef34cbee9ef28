//! Jobs and cron jobs.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::selector;
use super::workload::{EMPTY, mismatch, not_negative, template, template_labels};
use crate::builtin::field::{at, copy, fields, number, text, truth};
use crate::builtin::internal;
use crate::builtin::metadata::{immutable, invalid, not_supported, required};
use crate::builtin::names;
use crate::builtin::pod::validate_template;

/// A job, and the job in a cron job.
pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    job_spec(object, "spec", errors);
    match at(object, &["spec", "selector"]) {
        None => {
            errors.push(required("spec.selector", ""));
            errors.push(mismatch(object));
        }
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
    let own = json!({
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    });
    if let Some(one) = at(object, &["spec", "selector"])
        && selector::is_sound(one)
        && !selector::matches(one, &own)
    {
        errors.push(invalid("spec.selector", one, "`selector` not auto-generated"));
    }
}

/// Little of a job may change once it is there.
pub(super) fn unchanged(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
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
    if *template(new) != before {
        let mut error = invalid("spec.template", &Value::Null, "field is immutable");
        error.bad_value = muster_kube::BadValue::Printed(internal::template(template(new)));
        errors.push(error);
    }
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
pub(super) fn validate_cron(object: &Value, errors: &mut Vec<FieldError>) {
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
