//! Small controllers for what a real cluster brings along: Jobs, JobSets, Services, garbage
//! collection, namespaces, disruption budgets and a plain scheduler.
//!
//! ```text
//!  API ──watch──▶ cache (one per kind) ──▶ index ──▶ queue ──▶ decide (pure) ──▶ effects ──▶ API
//!                   ▲                                                             │
//!                   └────────────── answers to our own writes ────────────────────┘
//! ```
//!
//! They live apart from the API and are ordinary clients of it. What is decided is decided in pure
//! functions of the objects and the time; a controller asks the caches, never the server, what there
//! is. Start at [`Controllers::start`], then read any controller: they are built alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use muster_kube::FieldError;
use serde_json::Value;

use crate::clock::Clock;
use inventory::Inventory;
use queue::Tasks;
use rest::Rest;

mod cache;
mod disruption;
mod gc;
mod inventory;
mod job;
mod json;
mod kind;
mod namespace;
mod nodes;
mod pods;
mod queue;
mod rest;
mod scheduler;
mod selection;
mod service;

pub mod jobset;

#[cfg(test)]
mod tests;

/// The running controllers.
pub struct Controllers {
    tasks: Tasks,
    rest: Rest,
    inventory: Option<Arc<Inventory>>,
}

/// Which controllers run; by default all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// The garbage collector, which follows owner references.
    pub gc: bool,
    /// Namespaces: the default ServiceAccount, the CA bundle, deletion.
    pub namespace: bool,
    /// The controller of Jobs.
    pub job: bool,
    /// The controller of JobSets.
    pub jobset: bool,
    /// EndpointSlices and Endpoints.
    pub service: bool,
    /// The default scheduler.
    pub scheduler: bool,
    /// Names of other schedulers that it stands in for, such as `volcano`.
    pub schedulers: Vec<String>,
    /// Status of PodDisruptionBudgets.
    pub disruption: bool,
    /// Removal of pods whose node is gone.
    pub pods: bool,
    /// Taints of nodes that are not ready or cordoned.
    pub nodes: bool,
    /// The PEM of the CA that signed the server's certificate, for `kube-root-ca.crt`.
    pub root_ca: String,
}

// === impl Which ===

impl Default for Which {
    fn default() -> Self {
        Self {
            gc: true,
            namespace: true,
            job: true,
            jobset: true,
            service: true,
            scheduler: true,
            schedulers: Vec::new(),
            disruption: true,
            pods: true,
            nodes: true,
            root_ca: String::new(),
        }
    }
}

impl Which {
    /// None of them, to switch on by name.
    pub fn none() -> Self {
        Self {
            gc: false,
            namespace: false,
            job: false,
            jobset: false,
            service: false,
            scheduler: false,
            schedulers: Vec::new(),
            disruption: false,
            pods: false,
            nodes: false,
            root_ca: String::new(),
        }
    }
}

// === impl Controllers ===

impl Controllers {
    /// Starts them; must be called within a tokio runtime.
    pub fn start(client: Client, clock: Clock, which: Which) -> Self {
        let tasks = Tasks::default();
        let rest = Rest::new(client, clock, tasks.clone());
        // Those that need whole objects first: a cache of whole objects serves the others too.
        if which.job {
            job::JobController::start(&rest);
        }
        if which.jobset {
            jobset::JobSetController::start(&rest);
        }
        if which.service {
            service::ServiceController::start(&rest);
        }
        if which.scheduler {
            scheduler::Scheduler::start(&rest, which.schedulers);
        }
        if which.disruption {
            disruption::DisruptionController::start(&rest);
        }
        if which.pods {
            pods::PodCollector::start(&rest);
        }
        if which.nodes {
            nodes::NodeController::start(&rest);
        }
        if which.namespace {
            // Whole, since the status is written back.
            rest.cache(&kind::NAMESPACES);
        }
        let inventory = (which.gc || which.namespace).then(|| Inventory::start(&rest));
        if let Some(inventory) = &inventory {
            if which.namespace {
                namespace::NamespaceController::start(&rest, inventory, which.root_ca);
            }
            if which.gc {
                gc::Collector::start(&rest, inventory);
            }
        }
        Self { tasks, rest, inventory }
    }

    /// Stops them and waits until they have ended.
    pub async fn stop(self) {
        self.tasks.end().await;
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.tasks.token().cancel();
        // The inventory first: without listeners no cache gets a handler any more.
        if let Some(inventory) = &self.inventory {
            inventory.disband();
        }
        self.rest.disband();
    }
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

/// The CustomResourceDefinitions that the chosen controllers need.
pub fn crds(which: &Which) -> Vec<Value> {
    let mut all = Vec::new();
    if which.jobset {
        // Our own file, read in a test.
        all.extend(serde_saphyr::from_str::<Value>(jobset::DEFINITION).ok());
    }
    all
}

/// The custom resources of the chosen controllers, as the store names them.
pub fn hosted(which: &Which) -> BTreeSet<String> {
    which.jobset.then(|| "jobsets.jobset.x-k8s.io".to_owned()).into_iter().collect()
}

/// Defaults of the custom resources that a controller here admits; others are left alone.
pub fn default(group: &str, kind: &str, object: &mut Value) {
    if (group, kind) == ("jobset.x-k8s.io", "JobSet") {
        jobset::default_jobset(object);
    }
}

/// What is wrong with a new custom resource that a controller here admits.
pub fn validate_create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("jobset.x-k8s.io", "JobSet") => jobset::validate_create(object),
        _ => Vec::new(),
    }
}

/// What is wrong with a change of a custom resource that a controller here admits.
pub fn validate_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("jobset.x-k8s.io", "JobSet") => jobset::validate_update(old, new),
        _ => Vec::new(),
    }
}
