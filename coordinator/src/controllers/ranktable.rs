//! The ranktable controller: a group of pods gets one table.
//!
//! ```text
//!   pods, records, templates ──watch──┐                      ┌──▶ record (ConfigMap)
//!   agents ──hub──────────────────────┼──▶ groups ──▶ flight ┤
//!   time ─────────────────────────────┘      ▲               └──▶ hub ──▶ agents
//!                                            └─── landed ◀── acks
//! ```
//!
//! One task owns all groups. Whatever changes marks a group; a marked group is looked at ([`group`], pure), and what
//! takes time flies (`flight`), one thing at a time per group. A bad group never holds up another.

pub mod compose;
pub mod delivery;
mod desk;
pub mod digests;
mod entry;
mod feed;
mod flight;
pub mod group;
pub mod member;
pub mod metrics;
mod owner;
pub mod record;
pub mod shown;
mod vouch;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::events::Events;
use crate::templates::Templates;
use crate::watch::Watch;
use crate::write::Writer;
use muster_hub::Hub;

pub use desk::run;
pub use group::Patience;
pub use metrics::Metrics;
pub use shown::Shown;

/// Whose word about devices counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Truth {
    /// That of the agent of the pod's node, on its own stream; annotations are for people to read.
    #[default]
    Agent,
    /// That of the pod's annotation, whoever wrote it.
    Annotation,
}

/// How tables are made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whose word about devices counts.
    pub truth: Truth,
    /// Times that decide.
    pub patience: Patience,
}

/// What the controller looks at.
#[derive(Clone)]
pub struct Sources {
    /// Pods with the label of a rank group.
    pub pods: Watch<Pod>,
    /// ConfigMaps that are records.
    pub records: Watch<ConfigMap>,
    /// Templates.
    pub templates: Templates,
    /// The agents.
    pub hub: Hub,
}

/// What the controller speaks through.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// Writes.
    pub writer: Writer,
    /// Events.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// What can be asked.
    pub shown: Shown,
}
