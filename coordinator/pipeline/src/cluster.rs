//! What is seen of a cluster. The coordinator answers from its caches, a test from a list.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::job_set::JobSet;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;

use crate::runtime::{Runtime, RuntimeKind};
use crate::snapshot::Snapshot;

/// What is seen of a cluster.
pub trait Cluster {
    /// A runtime as it is now. `namespace` counts for namespaced ones only.
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>>;

    /// The ConfigMap that keeps a job's runtime.
    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot>;

    /// The JobSet of this name, if it exists.
    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>>;

    /// Whether an object is there. `api_version` and `kind` are those of what a plugin builds or asks for.
    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool;

    /// What is in a Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>>;

    /// A template of rank tables, by the name of its ConfigMap.
    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem>;
}
