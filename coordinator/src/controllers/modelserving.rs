//! The ModelServing controller: groups of pods that serve a model, in both shapes of the kind.
//!
//! ```text
//!   ModelServings, pods, services, ─watch─▶ desk ─▶ one task per ModelServing ─▶ machine (pure) ─▶ steps
//!   PodGroups, revisions, templates           (what has changed)   ▲                                 │
//!                                                                  └───────── follow ◀──────────────┘
//!   records of rank tables ───────────────────────────────────────▶ conditions
//! ```
//!
//! What is decided, is decided by [`muster_modelserving`]. Here it is fed, and its writes are done. Pods that share a rank
//! table get its marks; the ranktable controller does the rest.

mod adorn;
mod desk;
mod feed;
mod follow;
mod keep;
mod known;
pub mod metrics;
mod pokes;
pub mod shown;
mod sizes;
pub mod tables;
pub(crate) mod voice;
pub mod written;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::shape::Shape;
use muster_ranktable::inject::Injection;
use tokio::sync::Semaphore;

use crate::events::Events;
use crate::templates::Templates;
use crate::watch::Watch;
use crate::write::Writer;

pub use desk::run;
pub use metrics::Metrics;
pub use shown::Shown;
use voice::Voice;
use written::{KthenaServing, PodGroup, SeedServing, Written};

/// Writes that are under way at once, over all ModelServings.
const MOST_WRITES: usize = 64;

/// A ModelServing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// How it is written.
    pub shape: Shape,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What the controller looks at.
#[derive(Clone)]
pub struct Sources {
    /// ModelServings as Kthena's users write them.
    pub kthena: Watch<KthenaServing>,
    /// ModelServings in the short form.
    pub seed: Watch<SeedServing>,
    /// Their pods.
    pub pods: Watch<Pod>,
    /// Their services.
    pub services: Watch<Service>,
    /// Their revisions.
    pub revisions: Watch<ControllerRevision>,
    /// Their PodGroups.
    pub pod_groups: Watch<PodGroup>,
    /// What PodGroups are, if the cluster knows them.
    pub pod_group_definition: Watch<CustomResourceDefinition>,
    /// Records of rank tables.
    pub records: Watch<ConfigMap>,
    /// Templates of rank tables.
    pub templates: Templates,
}

/// What the controller speaks through.
#[derive(Clone)]
pub struct Outlets {
    /// Writes.
    pub writer: Writer,
    /// Events.
    voice: Voice,
    /// What is counted.
    pub metrics: Metrics,
    /// What pods of rank groups get injected.
    pub injection: Injection,
    /// What can be asked.
    pub shown: Shown,
    room: Arc<Semaphore>,
}

// === impl Key ===

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Sources ===

impl Sources {
    /// Returns when all of it has been seen once.
    pub async fn ready(&self) {
        self.kthena.ready().await;
        self.seed.ready().await;
        self.pods.ready().await;
        self.services.ready().await;
        self.revisions.ready().await;
        self.pod_group_definition.ready().await;
        self.pod_groups.ready().await;
        self.records.ready().await;
        self.templates.maps().ready().await;
    }

    /// A ModelServing as it is.
    fn written(&self, key: &Key) -> Option<Written> {
        let Key { shape, namespace, name } = key;
        match shape {
            Shape::Kthena => self.kthena.named(namespace, name).map(Written::Kthena),
            Shape::Seed => self.seed.named(namespace, name).map(Written::Seed),
        }
    }

    /// What the cluster knows of PodGroups.
    fn pod_group_api(&self) -> PodGroupApi {
        self.pod_group_definition
            .all()
            .first()
            .map_or(PodGroupApi::Absent, |definition| written::pod_group_api(definition))
    }
}

// === impl Outlets ===

impl Outlets {
    /// Through these.
    pub fn new(
        writer: Writer,
        events: Events,
        metrics: Metrics,
        injection: Injection,
        shown: Shown,
    ) -> Self {
        let room = Arc::new(Semaphore::new(MOST_WRITES));
        let voice = Voice::new(events, metrics.errors.clone());
        Self { writer, voice, metrics, injection, shown, room }
    }
}
