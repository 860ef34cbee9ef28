//! The ranktable controller: a group of pods gets one table.
//!
//! ```text
//!   pods, records, templates ──watch──┐   ┌──────────── machine (pure) ────────────┐
//!   agents ──hub──────────────────────┼──▶│ readiness checks ▸ phase ▸ effects     │──▶ record (ConfigMap), events, metrics
//!   time ─────────────────────────────┘   └──▲────────────────────────────────┬───┘──▶ hub ──▶ agents
//!                                            └─ result ◀── task (make, write) ◀┘
//! ```
//!
//! The [`controller`] runs on the controller runtime, with the rank group as its key: whatever changes wakes a group, and each group
//! is reconciled by itself. What is to be done is decided by the [`machine`], which moves a group from one [`phase`] to the next.

mod agent_report;
pub mod compose;
pub mod conditions;
pub mod controller;
pub mod delivery;
pub mod digests;
pub mod error;
pub mod events;
pub mod group;
mod index;
pub mod machine;
pub mod member;
pub mod metrics;
mod owner;
pub mod phase;
pub mod readiness;
pub mod record;
mod report;
pub mod status;
mod table_check;
pub mod task;
pub mod templates;
pub mod webhook;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::ranktables::templates::Templates;
use muster_hub::Hub;
use muster_runtime::reflector::Watch;

pub use controller::Controller;
pub use metrics::Metrics;
pub use readiness::Timeouts;
pub use status::Shown;

/// Where the coordinator learns which devices a pod holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceSource {
    /// From the agent of the pod's node, on its own stream; annotations are for people to read.
    #[default]
    Agent,
    /// From the pod's annotation, whoever wrote it.
    Annotation,
}

/// How tables are made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where it is learned which devices a pod holds.
    pub devices: DeviceSource,
    /// Times that decide.
    pub timeouts: Timeouts,
}

/// What the controller reads.
#[derive(Clone)]
pub struct Caches {
    /// Pods with the label of a rank group.
    pub pods: Watch<Pod>,
    /// ConfigMaps that are records.
    pub records: Watch<ConfigMap>,
    /// Templates.
    pub templates: Templates,
    /// The agents.
    pub hub: Hub,
}
