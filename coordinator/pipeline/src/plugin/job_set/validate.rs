//! What a JobSet cannot do for a job: initializers without their containers, patches that come too late.

use muster_api::TrainJob;
use muster_api::names::{DATASET_INITIALIZER, INITIALIZER, MODEL_INITIALIZER, NODE};
use muster_kube::FieldError;
use serde_json::{Value, json};

use crate::info::Info;
use crate::plugin::Context;
use crate::pod_set::called;

const PATCHES: &str = "spec.runtimePatches";
/// What a path may have beside letters and digits.
const KNOWN: &str = "/-._~%!$&'()*+,;=:";

/// All that is wrong.
pub(super) fn errors(
    cx: &Context<'_>,
    info: &Info,
    old: Option<&TrainJob>,
    new: &TrainJob,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let initializer = new.spec.initializer.as_ref();
    if initializer.is_some_and(|initializer| initializer.dataset.is_some()) {
        errors.extend(step(info, new, DATASET_INITIALIZER, "datasetConfig"));
    }
    if initializer.is_some_and(|initializer| initializer.model.is_some()) {
        errors.extend(step(info, new, MODEL_INITIALIZER, "modelConfig"));
    }
    for patch in new.patches() {
        errors.extend(manager(&patch.manager));
    }
    errors.extend(variables(new));
    errors.extend(update(cx, old, new));
    errors
}

/// A step that fetches needs its job, its container and its mount.
fn step(info: &Info, job: &TrainJob, step: &str, config: &str) -> Option<FieldError> {
    let wrong = |why: String| {
        let value = json!(job.spec.runtime_ref);
        let error = FieldError::invalid("spec.runtimeRef", value, why);
        Some(error.remedy("use a runtime that has this step, or drop the initializer"))
    };
    let Some(pods) = info.pod_set(step) else {
        return wrong(format!(
            "must have {step} job when trainJob is configured with input {config}"
        ));
    };
    let all = || pods.containers().iter().chain(pods.init_containers());
    if !all().any(|container| called(container, step)) {
        return wrong(format!("must have container with name - {step} in the {step} job"));
    }
    let mounts = pods.container(step).and_then(|container| container.get("volumeMounts"));
    let mounted = |mounts: &Vec<Value>| mounts.iter().any(|mount| called(mount, INITIALIZER));
    // As in the original, an init container alone does not do: its mounts are not looked at.
    if !mounts.and_then(Value::as_array).is_some_and(mounted) {
        return wrong(format!(
            "must have volumeMount with name - {INITIALIZER} in container {step} of the {step} job"
        ));
    }
    None
}

/// Who patches says so as `domain/name`.
fn manager(manager: &str) -> Vec<FieldError> {
    let field = format!("{PATCHES}.manager");
    let wrong = |why: &str| {
        let error = FieldError::invalid(field.clone(), manager, why);
        error.remedy("name the manager like acme.example/name")
    };
    let (domain, path) = manager.split_once('/').unwrap_or((manager, ""));
    if domain.is_empty() || path.is_empty() {
        return vec![wrong("must be a domain-prefixed path (such as \"acme.io/foo\")")];
    }
    let mut errors = Vec::new();
    if !is_subdomain(domain) {
        errors.push(wrong(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
        ));
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || KNOWN.contains(c)) {
        errors.push(wrong("Invalid path: letters, digits and /-._~%!$&'()*+,;=: only"));
    }
    errors
}

fn is_subdomain(domain: &str) -> bool {
    let label = |label: &str| {
        let edge = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let bytes = label.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    domain.len() <= 253 && domain.split('.').all(label)
}

/// Variables of the containers that the job itself has variables for.
fn variables(job: &TrainJob) -> Vec<FieldError> {
    let ours = [DATASET_INITIALIZER, MODEL_INITIALIZER, NODE];
    let mut errors = Vec::new();
    for patch in job.patches() {
        let spec = patch.training_runtime_spec.as_ref().and_then(|spec| spec.template.as_ref());
        let jobs = spec.and_then(|template| template.spec.as_ref()?.get("replicatedJobs"));
        for job in jobs.and_then(Value::as_array).into_iter().flatten() {
            let containers = job.pointer("/template/spec/template/spec/containers");
            for container in containers.and_then(Value::as_array).into_iter().flatten() {
                let set =
                    container.get("env").and_then(Value::as_array).is_some_and(|e| !e.is_empty());
                if set && ours.iter().any(|name| called(container, name)) {
                    let why = format!("must not have envs for the {} containers", ours.join(", "));
                    let error = FieldError::invalid(PATCHES, json!(patch), why);
                    errors.push(error.remedy("say them in spec.trainer.env or spec.initializer"));
                }
            }
        }
    }
    errors
}

/// Patches change only while nothing runs.
fn update(cx: &Context<'_>, old: Option<&TrainJob>, new: &TrainJob) -> Vec<FieldError> {
    let Some(old) = old else { return Vec::new() };
    if old.patches() == new.patches() {
        return Vec::new();
    }
    if !old.is_suspended() && !new.is_suspended() {
        let why = "RuntimePatches can only be modified when the TrainJob is suspended before or after the update";
        return vec![
            FieldError::forbidden(PATCHES, why).remedy("suspend the job in the same request"),
        ];
    }
    let there = cx.cluster.job_set(new.namespace(), new.name());
    let status = there.and_then(|there| there.status.clone()).unwrap_or_default();
    let active = status.replicated_jobs_status.iter().filter(|job| job.active > 0);
    let refuse = |name: &str| {
        let why = format!(
            "RuntimePatches cannot be modified when the JobSet's ReplicatedJob {name} is still active"
        );
        FieldError::forbidden(PATCHES, why).remedy("wait until its pods are gone")
    };
    active.map(|job| refuse(&job.name)).collect()
}
