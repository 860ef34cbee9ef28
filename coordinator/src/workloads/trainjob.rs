//! The TrainJob controller: from a job and its runtime to the objects that run it, and back to the job's status.
//!
//! ```text
//!   TrainJobs, runtimes ──watch──────────▶ controller ─▶ pass ─▶ muster_pipeline (pure) ─▶ objects, status
//!   objects of the kinds that plugins      (whose it is)  ▲                                  │
//!   declare ──watch───────────────────────────┘           └── what was written, until seen ◀─┘ applied if they differ
//! ```
//!
//! [`muster_pipeline`] decides. Here it is fed, and its writes are done: objects by server-side apply as `trainer`, and only if
//! that would change something (`workloads/same.rs`), status by merge patch. Nothing that matters is kept in memory alone, so a restart
//! between any two writes changes nothing.

mod absence;
pub mod caches;
pub mod controller;
pub mod kinds;
pub mod metrics;
pub mod owned;
pub mod progress;
pub mod runtime;
mod state;
pub mod status_view;
pub mod webhook;

use muster_pipeline::{Registry, Runtimes, Settings};

pub use caches::Caches;
pub use controller::Controller;
pub use metrics::Metrics;
pub use runtime::RuntimeController;
pub use status_view::StatusView;

/// The controller of events, as in the original.
pub const EVENT_SOURCE: &str = "trainer-trainjob-controller";

/// By what is decided.
pub struct Rules {
    /// The plugins.
    pub registry: Registry,
    /// What the operator has set.
    pub settings: Settings,
    /// Runtimes that were read before.
    pub runtimes: Runtimes,
}

// === impl Rules ===

impl Rules {
    /// These plugins, with these settings.
    pub fn new(registry: Registry, settings: Settings) -> Self {
        Self { registry, settings, runtimes: Runtimes::default() }
    }
}
