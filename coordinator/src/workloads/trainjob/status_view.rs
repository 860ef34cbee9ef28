//! What can be asked about TrainJobs: for the status page.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::TrainJob;
use muster_pipeline::conditions::{COMPLETE, FAILED, SUSPENDED};
use parking_lot::Mutex;
use serde::Serialize;

use crate::workloads::Key;

/// How a TrainJob stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLine {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its runtime.
    pub runtime: String,
    /// `Complete`, `Failed`, `Suspended`, or `Running`.
    pub state: &'static str,
    /// Jobs of its JobSet that are ready or have succeeded.
    pub ready: i32,
    /// What somebody should know, for a person.
    pub trouble: Option<String>,
}

/// All TrainJobs. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct StatusView(Arc<Mutex<BTreeMap<Key, Arc<JobLine>>>>);

// === impl JobLine ===

impl JobLine {
    /// How it stands now.
    pub fn of(job: &TrainJob, trouble: Option<String>) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let state = [COMPLETE, FAILED, SUSPENDED].into_iter().find(|kind| status.is(kind));
        Self {
            namespace: job.namespace().to_owned(),
            name: job.name().to_owned(),
            runtime: job.spec.runtime_ref.name.clone(),
            state: state.unwrap_or("Running"),
            ready: status.jobs_status.iter().map(|job| job.ready + job.succeeded).sum(),
            trouble,
        }
    }
}

// === impl StatusView ===

impl StatusView {
    /// All of them: by namespace and name.
    pub fn all(&self) -> Vec<Arc<JobLine>> {
        self.0.lock().values().cloned().collect()
    }

    pub(super) fn set(&self, key: &Key, line: JobLine) {
        let mut all = self.0.lock();
        if all.get(key).is_none_or(|known| **known != line) {
            all.insert(key.clone(), Arc::new(line));
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Forgets all of them: another coordinator knows better.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}
