//! The TrainJob controller: from a job and its runtime to the objects that run it, and back to the job's status.
//!
//! ```text
//!   TrainJobs, runtimes, JobSets, ─watch─▶ desk ─▶ queue ─▶ pass ─▶ muster_pipeline (pure) ─▶ objects, status
//!   ConfigMaps, Secrets, PodGroups         (whose it is)     ▲                                  │
//!                                                            └── what was written, until seen ◀─┘ applied if they differ
//! ```
//!
//! What is decided, is decided by [`muster_pipeline`]. Here it is fed, and its writes are done: objects by server-side apply
//! as `trainer`, and only if that would change something ([`same`]), status by merge patch. Nothing that matters is kept in
//! memory alone, so a restart between any two writes changes nothing.

mod absence;
mod desk;
mod feed;
pub mod kinds;
pub mod metrics;
mod pass;
mod queue;
pub mod same;
pub mod shown;
pub mod sources;
mod view;

use std::sync::Arc;

use muster_pipeline::{Registry, Runtimes, Settings};

use crate::events::Events;
use crate::voice::Voice;
use crate::write::Writer;

pub use desk::run;
pub use metrics::Metrics;
pub use shown::Shown;
pub use sources::Sources;

/// Who speaks in events, as in the original.
const SPEAKER: &str = "trainer-trainjob-controller";

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What the controller speaks through.
#[derive(Clone)]
pub struct Outlets {
    /// Writes.
    pub writer: Writer,
    voice: Voice,
    /// What is counted.
    pub metrics: Metrics,
    /// What can be asked.
    pub shown: Shown,
    rules: Arc<Rules>,
}

/// By what is decided.
pub struct Rules {
    /// The plugins.
    pub registry: Registry,
    /// What the operator has set.
    pub settings: Settings,
    /// Runtimes that were read before.
    pub runtimes: Runtimes,
}

// === impl Key ===

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Outlets ===

impl Outlets {
    /// Through these.
    pub fn new(
        writer: Writer,
        events: Events,
        metrics: Metrics,
        shown: Shown,
        rules: Arc<Rules>,
    ) -> Self {
        let dropped = metrics.errors.get_or_create(&metrics::Reason { reason: "events" }).clone();
        let voice = Voice::new(events.of(SPEAKER, muster_pipeline::event::ACTION), dropped);
        Self { writer, voice, metrics, shown, rules }
    }
}

// === impl Rules ===

impl Rules {
    /// All plugins, with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { registry: Registry::standard(), settings, runtimes: Runtimes::default() }
    }
}
