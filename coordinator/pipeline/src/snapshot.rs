//! The ConfigMap that keeps the runtime of a job as it was when the job began: later changes do not reach the job.

use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::{API_VERSION, GROUP};
use serde_json::{Value, json};

use crate::runtime::{Runtime, RuntimeError, RuntimeKind, Runtimes};
use crate::{name, pod_set};

/// What its name says after the job's.
pub(crate) const WHAT: &str = "runtime-snapshot";

/// The key of the runtime.
pub const KEY: &str = "runtime";

/// The ConfigMap as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The uid of its controller.
    pub controller: Option<String>,
    /// What is under the key.
    pub runtime: Option<String>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It belongs to something else.
    #[error("a snapshot configmap exists but is owned by another object")]
    Foreign,
    /// There is nothing in it.
    #[error("snapshot ConfigMap missing \"runtime\" data key")]
    Empty,
    /// It cannot be read.
    #[error("snapshot cannot be read: {0}")]
    Unreadable(RuntimeError),
    /// It is of another runtime.
    #[error(
        "the snapshot refers to the wrong runtime: expecting a runtime with name, api group and kind of \
         {expected} but found runtime with name, api group and kind of {found}"
    )]
    Other {
        /// What the job names.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// The name of a job's snapshot.
pub fn name(job: &TrainJob) -> String {
    name::of(job, WHAT)
}

/// Whether an object is the snapshot of a job.
pub fn is_snapshot(job: &TrainJob, object: &Value) -> bool {
    object["kind"] == "ConfigMap" && object["metadata"]["name"] == name(job).as_str()
}

/// The snapshot of a runtime.
pub fn build(job: &TrainJob, runtime: &Runtime) -> Result<Value, String> {
    let mut object = runtime.object.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), json!(API_VERSION));
        object.insert("kind".to_owned(), json!(runtime.kind.kind()));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    let jobs = object.pointer_mut("/spec/template/spec/replicatedJobs");
    for job in jobs.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(job) = job.as_object_mut() {
            pod_set::forget_none(job);
        }
    }
    let text = serde_saphyr::to_string(&object)
        .map_err(|error| format!("the runtime cannot be written down: {error}"))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": name::metadata(job, &name(job)),
        "data": {KEY: text},
    }))
}

/// The runtime that a snapshot keeps, if it is the job's.
pub fn read(
    job: &TrainJob,
    snapshot: &Snapshot,
    runtimes: &Runtimes,
) -> Result<Arc<Runtime>, SnapshotError> {
    if snapshot.controller.as_deref() != Some(job.uid()) {
        return Err(SnapshotError::Foreign);
    }
    let text = snapshot.runtime.as_deref().ok_or(SnapshotError::Empty)?;
    let runtime = runtimes.read(text).map_err(SnapshotError::Unreadable)?;
    let wanted = &job.spec.runtime_ref;
    let same = wanted.name == runtime.name() && RuntimeKind::of(wanted) == Some(runtime.kind);
    if same {
        return Ok(runtime);
    }
    let said = |part: &Option<String>| part.clone().unwrap_or_default();
    Err(SnapshotError::Other {
        expected: described(&wanted.name, &said(&wanted.api_group), &said(&wanted.kind)),
        found: described(runtime.name(), GROUP, runtime.kind.kind()),
    })
}

fn described(name: &str, group: &str, kind: &str) -> String {
    format!("{name:?}, {group:?}, {kind:?}")
}

// === impl Snapshot ===

impl Snapshot {
    /// Reads the ConfigMap.
    pub fn read(config_map: &Value) -> Self {
        let owners = config_map.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Self {
            controller: text(controller.and_then(|owner| owner.get("uid"))),
            runtime: text(config_map.get("data").and_then(|data| data.get(KEY))),
        }
    }
}
