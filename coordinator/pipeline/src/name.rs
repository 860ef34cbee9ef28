//! Names of what is made for a job, and whose it is.

use muster_api::TrainJob;
use muster_api::names::{API_VERSION, NODE, PORT, TRAIN_JOB};
use serde_json::{Value, json};

/// Something of a job: `<job>-<what>`.
pub fn of(job: &TrainJob, what: &str) -> String {
    format!("{}-{what}", job.name())
}

/// Where the first node of a job is found.
pub fn head(job: &TrainJob) -> String {
    format!("{}-{NODE}-0-0.{}", job.name(), job.name())
}

/// The same with the port.
pub fn head_and_port(job: &TrainJob) -> String {
    format!("{}:{PORT}", head(job))
}

/// Name, namespace and owner of what is made for a job.
pub fn metadata(job: &TrainJob, name: &str) -> Value {
    json!({"name": name, "namespace": job.namespace(), "ownerReferences": [owner(job)]})
}

/// A job as an owner.
pub fn owner(job: &TrainJob) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": TRAIN_JOB, "name": job.name(), "uid": job.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}
