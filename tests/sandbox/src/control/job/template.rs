//! The pod that a Job makes.

use muster_objects::meta;
use serde_json::{Map, Value, json};

use super::super::json::controller_reference;
use super::super::kind::JOBS;
use super::names;

/// Which pod to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPod {
    /// Completion index, for Indexed Jobs.
    pub index: Option<usize>,
    /// Failures of this index so far (counted, ignored), where they are kept per index.
    pub failures: Option<(i64, i64)>,
}

/// Longest prefix that leaves room for the random suffix.
const LONGEST_PREFIX: usize = 58;

fn object<'a>(parent: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = parent.as_object_mut()?.entry(field).or_insert_with(|| json!({}));
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut()
}

/// Builds the pod.
pub fn build(job: &Value, new: &NewPod) -> Value {
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    let mut metadata = json!({
        "generateName": prefix(meta::name(job), new.index),
        "namespace": meta::namespace(job),
        "ownerReferences": [controller_reference(&JOBS, job)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.get("metadata").and_then(|m| m.get(field)) {
            metadata[field] = value.clone();
        }
    }
    if let Some(labels) = object(&mut metadata, "labels") {
        // The API puts these on the template; a Job that came another way gets them here.
        for (key, value) in [
            (names::JOB_NAME, meta::name(job)),
            (names::JOB_NAME_OLD, meta::name(job)),
            (names::CONTROLLER_UID, meta::uid(job)),
            (names::CONTROLLER_UID_OLD, meta::uid(job)),
        ] {
            labels.entry(key).or_insert_with(|| value.into());
        }
        if let Some(index) = new.index {
            labels.insert(names::INDEX.to_owned(), index.to_string().into());
        }
    }
    if (new.index.is_some() || new.failures.is_some())
        && let Some(annotations) = object(&mut metadata, "annotations")
    {
        if let Some(index) = new.index {
            annotations.insert(names::INDEX.to_owned(), index.to_string().into());
        }
        if let Some((counted, ignored)) = new.failures {
            annotations.insert(names::FAILURES.to_owned(), counted.to_string().into());
            if ignored > 0 {
                let text = ignored.to_string();
                annotations.insert(names::IGNORED_FAILURES.to_owned(), text.into());
            }
        }
    }
    let mut finalizers: Vec<Value> = meta_list(&metadata, "finalizers");
    if !finalizers.iter().any(|f| f == names::TRACKING) {
        finalizers.push(names::TRACKING.into());
    }
    metadata["finalizers"] = finalizers.into();

    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    if let Some(index) = new.index {
        spec["hostname"] = format!("{}-{index}", meta::name(job)).into();
        for list in ["initContainers", "containers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(add_index_env);
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn meta_list(metadata: &Value, field: &str) -> Vec<Value> {
    metadata.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn prefix(job: &str, index: Option<usize>) -> String {
    let Some(index) = index else { return format!("{job}-") };
    let end = format!("-{index}-");
    let room = LONGEST_PREFIX.saturating_sub(end.len());
    let mut cut =
        job.len().min(if job.len() + end.len() > LONGEST_PREFIX { room } else { job.len() });
    while !job.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{end}", &job[..cut])
}

fn add_index_env(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    let env = container.entry("env").or_insert_with(|| json!([]));
    if env.is_null() {
        *env = json!([]);
    }
    let Some(env) = env.as_array_mut() else { return };
    if !env.iter().any(|v| v.get("name").is_some_and(|n| n == names::INDEX_ENV)) {
        env.push(json!({
            "name": names::INDEX_ENV,
            "valueFrom": {"fieldRef": {
                "fieldPath": format!("metadata.labels['{}']", names::INDEX),
            }},
        }));
    }
}
