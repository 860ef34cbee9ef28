//! The ModelServing controller: groups of pods that serve a model, in both shapes of the kind.
//!
//! ```text
//!   ModelServings, pods, services,  ─watch─▶ controller ─▶ reconcile of one ModelServing ─▶ machine (pure) ─▶ steps
//!   PodGroups, revisions, templates,                         │ what has changed  ▲                             │
//!   records of rank tables                                   ▼                   └── observed ◀── apply ◀──────┘
//!                                                          conditions
//! ```
//!
//! [`muster_modelserving`] decides. The controller tells it what has happened, and applies its steps. Pods that share a rank table
//! get its marks; the ranktable controller does the rest.

mod controller;
pub mod metrics;
mod observed;
mod serving;
mod sizes;
mod table_mutator;
pub mod tables;
pub mod view;
pub mod webhook;
pub mod written;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ObjectMeta;
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::shape::Shape;

use crate::ranktables::templates::Templates;
use muster_runtime::reflector::Watch;

pub use controller::{Parts, run};
pub use metrics::Metrics;
pub use view::StatusView;
use written::{KthenaServing, PodGroup, ShortServing, WatchedServing};

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

/// What is known of the cluster.
#[derive(Clone)]
pub struct Caches {
    /// ModelServings as Kthena's users write them.
    pub kthena: Watch<KthenaServing>,
    /// ModelServings in the short form.
    pub short: Watch<ShortServing>,
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

// === impl Key ===

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Caches ===

impl Caches {
    /// Returns when all of it has been seen once.
    pub async fn ready(&self) {
        self.kthena.ready().await;
        self.short.ready().await;
        self.pods.ready().await;
        self.services.ready().await;
        self.revisions.ready().await;
        self.pod_group_definition.ready().await;
        self.pod_groups.ready().await;
        self.records.ready().await;
        self.templates.maps().ready().await;
    }

    /// A ModelServing as it is.
    fn serving(&self, key: &Key) -> Option<WatchedServing> {
        let Key { shape, namespace, name } = key;
        match shape {
            Shape::Kthena => self.kthena.named(namespace, name).map(WatchedServing::Kthena),
            Shape::Short => self.short.named(namespace, name).map(WatchedServing::Short),
        }
    }

    /// All ModelServings.
    fn keys(&self) -> Vec<Key> {
        let key = |shape, metadata: &ObjectMeta| {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            Key { shape, namespace: text(&metadata.namespace), name: text(&metadata.name) }
        };
        let (kthena, short) = (self.kthena.all(), self.short.all());
        let kthena = kthena.iter().map(|serving| key(Shape::Kthena, &serving.0.metadata));
        kthena.chain(short.iter().map(|serving| key(Shape::Short, &serving.0.metadata))).collect()
    }

    /// The ModelServings of this name: one, or one of either shape.
    fn keys_of(&self, namespace: &str, name: &str) -> Vec<Key> {
        let key = |shape| Key { shape, namespace: namespace.to_owned(), name: name.to_owned() };
        Shape::ALL.map(key).into_iter().filter(|key| self.serving(key).is_some()).collect()
    }

    /// What the cluster knows of PodGroups.
    fn pod_group_api(&self) -> PodGroupApi {
        self.pod_group_definition
            .all()
            .first()
            .map_or(PodGroupApi::Absent, |definition| written::pod_group_api(definition))
    }
}
