//! The DIJob controller: reinforcement-learning jobs, whose coordinators ask for the rest of their pods.
//!
//! ```text
//!   DIJobs ─────────watch──────────▶ controller ─▶ operator (pure) ─▶ steps, status, events
//!   pods, services ─watch─▶ cache ──────┘                                │
//!                             ▲                                          │
//!                             └── what was just made or deleted ◀────────┴── the DI server
//! ```
//!
//! [`muster_dijob`] decides. The controller and the DI server share the cache: what one of them has made, the other knows at
//! once.

pub mod cache;
pub mod controller;
pub mod kinds;
pub mod server;
pub mod status_view;
pub mod webhook;

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_dijob::make;
use muster_runtime::reflector::Watch;

pub use cache::Cache;
pub use controller::Controller;
use kinds::{Config, Job};

/// What operators may set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How pods are made.
    pub make: make::Settings,
    /// How long a part of a logic learner may be without the rest.
    pub patience: Duration,
    /// How long a pod may take to end, in seconds.
    pub grace: u32,
}

/// What the controller and the DI server read.
#[derive(Clone)]
pub struct Caches {
    /// Jobs.
    pub jobs: Watch<Job>,
    /// Templates of aggregators.
    pub configs: Watch<Config>,
    /// Nodes, with what they have to give.
    pub nodes: Watch<Node>,
    /// Pods and services of jobs.
    pub cache: Cache,
    /// The definition of DIJobs, if the cluster has it.
    pub definition: Watch<CustomResourceDefinition>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        let make = make::Settings::default();
        Self { make, patience: Duration::from_secs(60), grace: 0 }
    }
}

// === impl Caches ===

impl Caches {
    /// Whether all of it has been listed once.
    pub fn is_ready(&self) -> bool {
        self.definition.is_ready()
            && self.jobs.is_ready()
            && self.configs.is_ready()
            && self.nodes.is_ready()
            && self.cache.is_ready()
    }
}
