//! What the controllers read, and the webhook beside them: caches that answer what the pipeline asks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LimitRange, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::job_set::JobSet;
use muster_api::names::JOB_SET_API;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::{self, Snapshot};
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use parking_lot::Mutex;
use serde_json::Value;

use super::kinds::{ClusterRuntime, Job, LocalRuntime, version};
use super::owned::{CONFIG_MAP, OwnedKinds, SECRET};
use crate::ranktables::templates::Templates;
use muster_api::kind::RawObject;
use muster_runtime::reflector::Watch;

/// What the controllers read. Copies share it.
#[derive(Clone)]
pub struct Caches {
    /// Jobs.
    pub jobs: Watch<Job>,
    /// Runtimes of one namespace.
    pub runtimes: Watch<LocalRuntime>,
    /// Runtimes of all namespaces.
    pub cluster_runtimes: Watch<ClusterRuntime>,
    /// Objects that jobs own.
    pub owned: OwnedKinds,
    /// What pods of a namespace get who say nothing, if a plugin asks for it.
    pub limit_ranges: Option<Watch<LimitRange>>,
    /// How containers are run, if a plugin asks for it.
    pub runtime_classes: Option<Watch<RuntimeClass>>,
    /// Who goes first.
    pub priority_classes: Watch<PriorityClass>,
    /// The kinds that the cluster may learn of later.
    pub definitions: Vec<Watch<CustomResourceDefinition>>,
    /// Templates of rank tables.
    pub templates: Templates,
    /// Runtimes that were read, with the version of each.
    pub read: ReadRuntimes,
}

/// Runtimes that were read, each once per version. Copies share them.
#[derive(Clone, Default)]
pub struct ReadRuntimes(Arc<Mutex<HashMap<RuntimeId, ReadRuntime>>>);

/// A version, and the runtime if it could be read.
type ReadRuntime = (String, Option<Arc<Runtime>>);

/// A runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuntimeId {
    /// Which of the two kinds.
    pub kind: RuntimeKind,
    /// Its namespace; empty for those of all namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

// === impl RuntimeId ===

impl RuntimeId {
    /// A runtime; one of all namespaces has none.
    pub fn new(kind: RuntimeKind, namespace: &str, name: &str) -> Self {
        let namespace = match kind {
            RuntimeKind::Cluster => "",
            RuntimeKind::Namespaced => namespace,
        };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match kind {
            RuntimeKind::Cluster => write!(f, "{} {name}", kind.kind()),
            RuntimeKind::Namespaced => write!(f, "{} {namespace}/{name}", kind.kind()),
        }
    }
}

// === impl Caches ===

impl Caches {
    /// Returns when all of it has been listed once.
    pub async fn ready(&self) {
        self.jobs.ready().await;
        self.runtimes.ready().await;
        self.cluster_runtimes.ready().await;
        for (_, owned) in self.owned.iter() {
            owned.objects.ready().await;
        }
        if let Some(limit_ranges) = &self.limit_ranges {
            limit_ranges.ready().await;
        }
        if let Some(runtime_classes) = &self.runtime_classes {
            runtime_classes.ready().await;
        }
        self.priority_classes.ready().await;
        self.templates.maps().ready().await;
    }

    /// A runtime, read once per version.
    fn read(&self, id: RuntimeId) -> Option<Arc<Runtime>> {
        let found: (String, Arc<dyn RawObject>) = match id.kind {
            RuntimeKind::Namespaced => {
                let found = self.runtimes.named(&id.namespace, &id.name)?;
                (version(&*found), found)
            }
            RuntimeKind::Cluster => {
                let found = self.cluster_runtimes.cluster_wide(&id.name)?;
                (version(&*found), found)
            }
        };
        let (version, object) = found;
        if let Some((known, runtime)) = self.read.0.lock().get(&id)
            && *known == version
        {
            return runtime.clone();
        }
        let runtime = match Runtime::read(object.object()) {
            Ok(runtime) => Some(Arc::new(runtime)),
            Err(error) => {
                tracing::warn!(runtime = %id, "a runtime cannot be read: {error}");
                None
            }
        };
        let mut read = self.read.0.lock();
        // Those that are gone.
        read.retain(|id, _| match id.kind {
            RuntimeKind::Namespaced => self.runtimes.named(&id.namespace, &id.name).is_some(),
            RuntimeKind::Cluster => self.cluster_runtimes.cluster_wide(&id.name).is_some(),
        });
        read.insert(id, (version, runtime.clone()));
        runtime
    }
}

impl Cluster for Caches {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        self.read(RuntimeId::new(kind, namespace, name))
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        let map = self.owned.get(self.owned.id(CONFIG_MAP.0, CONFIG_MAP.1)?, namespace, name)?;
        let owners = map.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let runtime = map.rest.get("data").and_then(|data| data[snapshot::KEY].as_str());
        Some(Snapshot {
            controller: controller.map(|owner| owner.uid.clone()),
            runtime: runtime.map(str::to_owned),
        })
    }

    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>> {
        let kind = self.owned.id(JOB_SET_API, "JobSet")?;
        read_job_set(self.owned.live(kind, namespace, name)?)
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        if (api_version, kind) == ("scheduling.k8s.io/v1", "PriorityClass") {
            return self.priority_classes.cluster_wide(name).is_some();
        }
        let kind = self.owned.id(api_version, kind);
        kind.is_some_and(|kind| self.owned.get(kind, namespace, name).is_some())
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let kind = self.owned.id(SECRET.0, SECRET.1)?;
        let secret: Secret =
            serde_json::from_value(self.owned.live(kind, namespace, name)?).ok()?;
        let data = secret.data.unwrap_or_default();
        Some(data.into_iter().map(|(key, value)| (key, value.0)).collect())
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.templates.get(name)
    }
}

/// A JobSet, if it can be read.
pub fn read_job_set(object: Value) -> Option<Arc<JobSet>> {
    match serde_json::from_value(object) {
        Ok(read) => Some(Arc::new(read)),
        Err(error) => {
            tracing::warn!(kind = "JobSet", "a JobSet cannot be read: {error}");
            None
        }
    }
}
