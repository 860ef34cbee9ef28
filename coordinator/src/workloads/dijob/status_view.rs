//! What can be asked about DIJobs: for the status page.

use std::collections::BTreeMap;

use muster_dijob::api::Counts;
use serde::Serialize;

use super::Caches;

/// How a job stands, as its status says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// Its pods by role.
    pub replicas: BTreeMap<String, Counts>,
}

/// All of them, by namespace and name.
pub fn all(caches: &Caches) -> Vec<JobStatus> {
    let jobs = caches.jobs.all();
    let shown = jobs.iter().map(|job| {
        let (metadata, status) = (&job.0.metadata, job.status().unwrap_or_default());
        JobStatus {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            phase: status.phase,
            replicas: status.replica_status.unwrap_or_default(),
        }
    });
    let mut shown: Vec<JobStatus> = shown.collect();
    shown.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    shown
}
