//! Defaults and validation of JobSets, as the original's webhooks do them.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use regex::Regex;
use serde_json::{Value, json};

use super::super::json;
use super::build;

static RULE_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$").ok());

const REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];
const LONGEST_LABEL: usize = 63;
const LONGEST_MANAGER: usize = 63;
const LABEL_FORM: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
     '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
     'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_absent(parent: &Value, field: &str) -> bool {
    parent.get(field).is_none_or(Value::is_null)
}

fn set_default(parent: &mut Value, field: &str, value: Value) {
    if is_absent(parent, field)
        && let Some(parent) = parent.as_object_mut()
    {
        parent.insert(field.to_owned(), value);
    }
}

/// Fills in what the original fills in on creation.
pub fn default_jobset(set: &mut Value) {
    let Some(spec) = set.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    set_default(spec, "successPolicy", json!({"operator": "All"}));
    set_default(spec, "startupPolicy", json!({"startupPolicyOrder": "AnyOrder"}));
    set_default(spec, "network", json!({}));
    set_default(&mut spec["network"], "enableDNSHostnames", true.into());
    set_default(&mut spec["network"], "publishNotReadyAddresses", true.into());
    for replicated in list_mut(spec, "/replicatedJobs") {
        if let Some(job) = replicated.pointer_mut("/template/spec") {
            set_default(job, "completionMode", "Indexed".into());
        }
        if let Some(pod) = replicated.pointer_mut("/template/spec/template/spec")
            && json::text(pod, "/restartPolicy").is_empty()
            && pod.is_object()
        {
            pod["restartPolicy"] = "OnFailure".into();
        }
    }
    for (at, rule) in list_mut(spec, "/failurePolicy/rules").iter_mut().enumerate() {
        if json::text(rule, "/name").is_empty() && rule.is_object() {
            rule["name"] = format!("failurePolicyRule{at}").into();
        }
    }
}

fn list_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value
        .pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
}

/// What is wrong with a new JobSet.
pub fn validate_create(set: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all = json::list(set, "/spec/replicatedJobs");
    if all.first().is_some_and(|first| !is_absent(first, "dependsOn")) {
        errors.push(forbidden(
            "spec.replicatedJobs[0].dependsOn",
            "DependsOn can't be set for the first ReplicatedJob",
        ));
    }
    let subdomain = json::text(set, "/spec/network/subdomain");
    if !subdomain.is_empty() {
        label(
            &mut errors,
            "spec.network.subdomain",
            subdomain,
            subdomain,
            ".spec.network.subdomain is too long, must be less than 63 characters",
        );
    }
    manager(&mut errors, json::text(set, "/spec/managedBy"));
    let mut seen = HashSet::new();
    for (at, replicated) in all.iter().enumerate() {
        let name = json::text(replicated, "/name");
        let field = format!("spec.replicatedJobs[{at}]");
        replicated_job(&mut errors, set, replicated, &field);
        // Its own name counts as known here, as in the original.
        seen.insert(name);
        for dependency in json::list(replicated, "/dependsOn") {
            let on = json::text(dependency, "/name");
            if !seen.contains(on) {
                errors.push(FieldError::with_value(
                    FieldErrorKind::Invalid,
                    format!("{field}.dependsOn"),
                    &on.into(),
                    format!("replicatedJob: {name} cannot depend on replicatedJob: {on}"),
                ));
            }
        }
    }
    for target in json::list(set, "/spec/successPolicy/targetReplicatedJobs") {
        if !target.as_str().is_some_and(|t| seen.contains(t)) {
            let name = target.as_str().unwrap_or("");
            errors.push(FieldError::with_value(
                FieldErrorKind::Invalid,
                "spec.successPolicy.targetReplicatedJobs",
                target,
                format!(
                    "invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs"
                ),
            ));
        }
    }
    failure_policy(&mut errors, set, &seen);
    coordinator(&mut errors, set, all);
    errors
}

/// What is wrong with a change of a JobSet.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wanted = new.pointer("/spec/replicatedJobs").cloned().unwrap_or_default();
    let had = old.pointer("/spec/replicatedJobs").cloned().unwrap_or_default();
    if json::flag(old, "/spec/suspend") || json::flag(new, "/spec/suspend") {
        let olds = had.as_array().map(Vec::as_slice).unwrap_or_default();
        let news = wanted.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
        for (new, old) in news.iter_mut().zip(olds) {
            for pointer in [
                "/metadata/labels",
                "/metadata/annotations",
                "/spec/nodeSelector",
                "/spec/tolerations",
                "/spec/schedulingGates",
            ] {
                copy(new, old, &format!("/template/spec/template{pointer}"));
            }
        }
    }
    if wanted != had {
        errors.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.replicatedJobs",
            &new.pointer("/spec/replicatedJobs").cloned().unwrap_or_default(),
            "field is immutable",
        ));
    }
    let (was, is) = (json::text(old, "/spec/managedBy"), json::text(new, "/spec/managedBy"));
    if was != is {
        errors.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.managedBy",
            &is.into(),
            "field is immutable",
        ));
    }
    errors
}

/// Makes one place of `to` what it is in `from`, also if it is absent there.
fn copy(to: &mut Value, from: &Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let value = from.pointer(pointer).cloned();
    let slot = to.pointer_mut(parent).and_then(Value::as_object_mut);
    match (slot, value) {
        (Some(slot), Some(value)) => {
            slot.insert(field.to_owned(), value);
        }
        (Some(slot), None) => {
            slot.remove(field);
            // A parent that exists only for this field is the same as none.
            if slot.is_empty()
                && from.pointer(parent).is_none()
                && let Some((grand, name)) = parent.rsplit_once('/')
                && let Some(grand) = to.pointer_mut(grand).and_then(Value::as_object_mut)
            {
                grand.remove(name);
            }
        }
        (None, Some(value)) => {
            if let Some((grand, name)) = parent.rsplit_once('/')
                && let Some(grand) = to.pointer_mut(grand).and_then(Value::as_object_mut)
            {
                grand.insert(name.to_owned(), json!({ field: value }));
            }
        }
        (None, None) => {}
    }
}

fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    FieldError::new(FieldErrorKind::Forbidden, field, detail)
}

fn is_label(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.ends_with('-')
}

fn label(errors: &mut Vec<FieldError>, field: &str, text: &str, shown: &str, too_long: &str) {
    let mut wrong = |detail: &str| {
        let kind = FieldErrorKind::Invalid;
        errors.push(FieldError::with_value(kind, field, &shown.into(), detail));
    };
    if text.len() > LONGEST_LABEL {
        wrong(too_long);
    }
    if !is_label(text) {
        wrong(LABEL_FORM);
    }
}

fn manager(errors: &mut Vec<FieldError>, manager: &str) {
    if manager.is_empty() {
        return;
    }
    let (domain, path) = manager.split_once('/').unwrap_or(("", ""));
    let domain_ok = !domain.is_empty()
        && domain.split('.').all(|part| {
            let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            end(part.chars().next())
                && end(part.chars().next_back())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        });
    if !domain_ok || path.is_empty() {
        errors.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.managedBy",
            &manager.into(),
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        ));
    }
    if manager.len() > LONGEST_MANAGER {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            "spec.managedBy",
            format!("may not be more than {LONGEST_MANAGER} bytes"),
        ));
    }
}

fn replicated_job(errors: &mut Vec<FieldError>, set: &Value, replicated: &Value, field: &str) {
    let name = json::text(replicated, "/name");
    let replicas = build::replicas(replicated);
    let parallelism = json::int(replicated, "/template/spec/parallelism").unwrap_or(1);
    if parallelism.saturating_mul(replicas) > i64::from(i32::MAX) {
        errors.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            format!("{field}.replicas"),
            &replicas.into(),
            format!(
                "the product of replicas and parallelism must not exceed {} for replicatedJob \
                 '{name}'",
                i32::MAX
            ),
        ));
    }
    let group = json::text(replicated, "/groupName");
    if !group.is_empty() {
        let too_long = "GroupName is too long, must be at most 63 characters";
        label(errors, &format!("{field}.groupName"), group, group, too_long);
    }
    let longest = build::job_name(meta::name(set), name, replicas - 1);
    if meta::name(set).is_empty() {
        // A generated name is not known yet; the Jobs' own validation will tell.
        return;
    }
    label(
        errors,
        &format!("{field}.name"),
        &longest,
        &longest,
        "JobSet name is too long, job names generated for this JobSet will exceed 63 characters",
    );
    let indexed = json::text(replicated, "/template/spec/completionMode") == "Indexed";
    if let Some(completions) =
        json::int(replicated, "/template/spec/completions").filter(|_| indexed)
    {
        label(
            errors,
            &format!("{field}.name"),
            &format!("{longest}-{}-abcde", completions - 1),
            &longest,
            "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters",
        );
    }
}

fn failure_policy(errors: &mut Vec<FieldError>, set: &Value, known: &HashSet<&str>) {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, rule) in json::list(set, "/spec/failurePolicy/rules").iter().enumerate() {
        let name = json::text(rule, "/name");
        let field = format!("spec.failurePolicy.rules[{at}]");
        let mut wrong = |child: &str, value: &str, detail: String| {
            errors.push(FieldError::with_value(
                FieldErrorKind::Invalid,
                format!("{field}.{child}"),
                &value.into(),
                detail,
            ));
        };
        if name.is_empty() || name.len() > 128 {
            wrong(
                "name",
                name,
                format!(
                    "invalid failure policy rule name of length {}, the rule name must be at least 1 \
                 characters long and at most 128 characters long",
                    name.len()
                ),
            );
        }
        if !RULE_NAME.as_ref().is_some_and(|form| form.is_match(name)) {
            wrong(
                "name",
                name,
                format!(
                    "invalid failure policy rule name '{name}', a failure policy rule name must start \
                 with an alphabetic character, optionally followed by a string of alphanumeric \
                 characters or '_,:', and must end with an alphanumeric character or '_'"
                ),
            );
        }
        for target in json::list(rule, "/targetReplicatedJobs").iter().filter_map(Value::as_str) {
            if !known.contains(target) {
                wrong(
                    "targetReplicatedJobs",
                    target,
                    format!(
                        "invalid replicatedJob name '{target}' in failure policy does not appear in \
                     .spec.ReplicatedJobs"
                    ),
                );
            }
        }
        for reason in json::list(rule, "/onJobFailureReasons").iter().filter_map(Value::as_str) {
            if !REASONS.contains(&reason) {
                wrong(
                    "onJobFailureReasons",
                    reason,
                    format!(
                        "invalid job failure reason '{reason}' in failure policy is not a recognized \
                     job failure reason"
                    ),
                );
            }
        }
        by_name.entry(name).or_default().push(at);
    }
    for (name, at) in by_name.iter().filter(|(_, at)| at.len() > 1) {
        let places: Vec<String> = at.iter().map(ToString::to_string).collect();
        errors.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.failurePolicy.rules",
            &(*name).into(),
            format!(
                "rule names are not unique, rules with indices [{}] all have the same name '{name}'",
                places.join(" ")
            ),
        ));
    }
}

fn coordinator(errors: &mut Vec<FieldError>, set: &Value, all: &[Value]) {
    let Some(coordinator) = set.pointer("/spec/coordinator").filter(|c| !c.is_null()) else {
        return;
    };
    let name = json::text(coordinator, "/replicatedJob");
    let job = json::int(coordinator, "/jobIndex").unwrap_or(0);
    let pod = json::int(coordinator, "/podIndex").unwrap_or(0);
    let replicated = all.iter().find(|r| json::text(r, "/name") == name);
    let completions = replicated.and_then(|r| json::int(r, "/template/spec/completions"));
    let detail = match replicated {
        None => format!("coordinator replicatedJob {name} does not exist"),
        Some(r) if job < 0 || job >= build::replicas(r) => {
            format!("coordinator job index {job} is invalid for replicatedJob {name}")
        }
        Some(r)
            if json::text(r, "/template/spec/completionMode") != "Indexed"
                || completions.is_none() =>
        {
            "job for coordinator pod must be indexed completion mode, and completions number must \
             be set"
                .to_owned()
        }
        Some(_) if pod < 0 || completions.is_some_and(|n| pod >= n) => format!(
            "coordinator pod index {pod} is invalid for replicatedJob {name} job index {job}"
        ),
        Some(_) => return,
    };
    errors.push(FieldError::with_value(
        FieldErrorKind::Invalid,
        "spec.coordinator",
        coordinator,
        detail,
    ));
}

#[cfg(test)]
mod tests;
