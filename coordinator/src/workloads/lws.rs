//! LeaderWorkerSets as ModelServings, where `--leader-worker-sets` is on: the same objects, without the LeaderWorkerSet operator.
//!
//! ```text
//!   LeaderWorkerSet ─watch─▶ controller ─▶ muster_modelserving::lws (pure) ─▶ ModelServing of the same name, applied
//!         ▲                                                                       │
//!         └───────────── status: counts, conditions ◀──────────────────────── its status
//! ```
//!
//! All else, pods and services and rank tables, is the work of the ModelServing controller.

mod controller;
mod error;
mod events;
pub mod kinds;

use muster_runtime::reflector::Watch;

use super::modelserving::written::KthenaServing;

pub use controller::Controller;
use kinds::Set;

/// What the controller reads.
#[derive(Clone)]
pub struct Caches {
    /// LeaderWorkerSets.
    pub sets: Watch<Set>,
    /// ModelServings, with the fields that we have applied to them.
    pub servings: Watch<KthenaServing>,
}
