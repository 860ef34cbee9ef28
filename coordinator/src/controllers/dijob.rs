//! The DIJob controller: reinforcement-learning jobs, whose coordinators ask for the rest of their pods.
//!
//! ```text
//!   DIJobs ─────────────watch─▶ desk ─▶ one look per job at a time ─▶ operator (pure) ─▶ steps, status, events
//!   pods, services ─watch─▶ cache ─┘                                                        │
//!                             ▲                                                             │
//!                             └── what was just made or deleted ◀── the DI server ◀─────────┘
//! ```
//!
//! What is decided, is decided by [`muster_dijob`]. The cache is shared with the DI server: what one of them has made,
//! the other knows at once.

pub mod cache;
mod desk;
pub mod kinds;
mod look;
pub mod metrics;
pub mod shown;

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_dijob::make;

use crate::controllers::modelserving::voice::Voice;
use crate::events::Events;
use crate::watch::Watch;
use crate::write::Writer;

pub use cache::Cache;
pub use desk::run;
use kinds::{Config, Job};
pub use metrics::Metrics;

/// How jobs are looked after.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How pods are made.
    pub make: make::Settings,
    /// How long a part of a logic learner may be without the rest.
    pub patience: Duration,
    /// How long a pod may take to end, in seconds.
    pub grace: u32,
}

/// A job: namespace and name.
pub type Key = (String, String);

/// What the controller and the DI server look at.
#[derive(Clone)]
pub struct Sources {
    /// Jobs.
    pub jobs: Watch<Job>,
    /// Templates of aggregators.
    pub configs: Watch<Config>,
    /// Nodes, with what they have to give.
    pub nodes: Watch<Node>,
    /// Pods and services of jobs.
    pub cache: Cache,
    /// What DIJobs are, if the cluster knows them.
    pub definition: Watch<CustomResourceDefinition>,
}

/// What the controller speaks through.
#[derive(Clone)]
pub struct Outlets {
    /// Writes.
    pub writer: Writer,
    voice: Voice,
    /// What is counted.
    pub metrics: Metrics,
    /// How jobs are looked after.
    pub settings: Settings,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        let make = make::Settings::default();
        Self { make, patience: Duration::from_secs(60), grace: 0 }
    }
}

// === impl Sources ===

impl Sources {
    /// Returns when all of it has been seen once.
    pub async fn ready(&self) {
        self.definition.ready().await;
        self.jobs.ready().await;
        self.configs.ready().await;
        self.nodes.ready().await;
        self.cache.ready().await;
    }

    /// Whether all of it has been seen once.
    pub fn is_ready(&self) -> bool {
        self.definition.is_ready()
            && self.jobs.is_ready()
            && self.configs.is_ready()
            && self.nodes.is_ready()
            && self.cache.is_ready()
    }
}

// === impl Outlets ===

impl Outlets {
    /// Through these.
    pub fn new(writer: Writer, events: Events, metrics: Metrics, settings: Settings) -> Self {
        let voice = Voice::new(events, metrics.errors.clone());
        Self { writer, voice, metrics, settings }
    }
}
