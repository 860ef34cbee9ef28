//! What the controllers look at, and the webhook beside them: caches that answer what the pipeline asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::core::ObjectMeta;
use muster_api::job_set::JobSet;
use muster_api::names::FIELD_MANAGER;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::{self, Snapshot};
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use parking_lot::Mutex;
use serde_json::Value;

use super::kinds::{
    ClusterRuntime, CoschedulingGroup, Job, KaiGroup, LocalRuntime, Thing, VolcanoGroup, Workload,
    Written, controller, version,
};
use crate::names::CERTS_SECRET;
use crate::templates::Templates;
use crate::watch::Watch;

/// Where a Secret has the certificates of authorities.
const AUTHORITY: &str = "ca.crt";

/// What the controllers look at. Copies share it.
#[derive(Clone)]
pub struct Sources {
    /// Jobs.
    pub jobs: Watch<Job>,
    /// Runtimes of one namespace.
    pub runtimes: Watch<LocalRuntime>,
    /// Runtimes of all namespaces.
    pub cluster_runtimes: Watch<ClusterRuntime>,
    /// What runs.
    pub job_sets: Watch<Workload>,
    /// Snapshots, host files, and those of others, of which little is kept.
    pub config_maps: Watch<ConfigMap>,
    /// Keys, without what is in them.
    pub secrets: Watch<Secret>,
    /// PodGroups of the scheduler plugins.
    pub coscheduling: Watch<CoschedulingGroup>,
    /// Volcano's.
    pub volcano: Watch<VolcanoGroup>,
    /// KAI's.
    pub kai: Watch<KaiGroup>,
    /// What pods of a namespace get who say nothing.
    pub limit_ranges: Watch<LimitRange>,
    /// How containers are run.
    pub runtime_classes: Watch<RuntimeClass>,
    /// Who goes first.
    pub priority_classes: Watch<PriorityClass>,
    /// The kinds that the cluster may learn of later.
    pub definitions: Vec<Watch<CustomResourceDefinition>>,
    /// Templates of rank tables.
    pub templates: Templates,
    /// Runtimes that were read, with the version of each.
    pub read: Read,
}

/// Runtimes that were read, each once per version. Copies share them.
#[derive(Clone, Default)]
pub struct Read(Arc<Mutex<HashMap<RuntimeId, Known>>>);

/// A version, and the runtime if it could be read.
type Known = (String, Option<Arc<Runtime>>);

/// A runtime: its kind, its namespace (empty for those of all), its name.
pub type RuntimeId = (RuntimeKind, String, String);

// === impl Sources ===

impl Sources {
    /// Returns when all of it has been seen once.
    pub async fn ready(&self) {
        self.jobs.ready().await;
        self.runtimes.ready().await;
        self.cluster_runtimes.ready().await;
        self.job_sets.ready().await;
        self.config_maps.ready().await;
        self.secrets.ready().await;
        self.coscheduling.ready().await;
        self.volcano.ready().await;
        self.kai.ready().await;
        self.limit_ranges.ready().await;
        self.runtime_classes.ready().await;
        self.priority_classes.ready().await;
        self.templates.maps().ready().await;
    }

    /// Something that was made for a job, as it is now.
    pub fn live(&self, thing: Thing, namespace: &str, name: &str) -> Option<Value> {
        fn plain<K: serde::Serialize>(object: &K) -> Option<Value> {
            serde_json::to_value(object).ok()
        }
        match thing {
            Thing::ConfigMap => plain(&*self.config_maps.named(namespace, name)?),
            Thing::Secret => plain(&*self.secrets.named(namespace, name)?),
            Thing::JobSet => Some(self.job_sets.named(namespace, name)?.object()),
            Thing::Coscheduling => Some(self.coscheduling.named(namespace, name)?.object()),
            Thing::Volcano => Some(self.volcano.named(namespace, name)?.object()),
            Thing::Kai => Some(self.kai.named(namespace, name)?.object()),
        }
    }

    /// The metadata of the same.
    pub fn metadata(&self, thing: Thing, namespace: &str, name: &str) -> Option<ObjectMeta> {
        fn of<K: Resource<DynamicType = ()> + Clone>(
            watch: &Watch<K>,
            namespace: &str,
            name: &str,
        ) -> Option<ObjectMeta> {
            watch.named(namespace, name).map(|object| object.meta().clone())
        }
        match thing {
            Thing::ConfigMap => of(&self.config_maps, namespace, name),
            Thing::Secret => of(&self.secrets, namespace, name),
            Thing::JobSet => of(&self.job_sets, namespace, name),
            Thing::Coscheduling => of(&self.coscheduling, namespace, name),
            Thing::Volcano => of(&self.volcano, namespace, name),
            Thing::Kai => of(&self.kai, namespace, name),
        }
    }

    /// The version of the same.
    pub fn version(&self, thing: Thing, namespace: &str, name: &str) -> Option<String> {
        fn of<K: Resource<DynamicType = ()> + Clone>(
            watch: &Watch<K>,
            namespace: &str,
            name: &str,
        ) -> Option<String> {
            watch.named(namespace, name)?.meta().resource_version.clone()
        }
        match thing {
            Thing::ConfigMap => of(&self.config_maps, namespace, name),
            Thing::Secret => of(&self.secrets, namespace, name),
            Thing::JobSet => of(&self.job_sets, namespace, name),
            Thing::Coscheduling => of(&self.coscheduling, namespace, name),
            Thing::Volcano => of(&self.volcano, namespace, name),
            Thing::Kai => of(&self.kai, namespace, name),
        }
    }

    /// A runtime, read once per version.
    fn read(&self, id: RuntimeId) -> Option<Arc<Runtime>> {
        let (kind, namespace, name) = &id;
        let found: (String, Arc<dyn Written>) = match kind {
            RuntimeKind::Namespaced => {
                let found = self.runtimes.named(namespace, name)?;
                (version(&*found), found)
            }
            RuntimeKind::Cluster => {
                let found = self.cluster_runtimes.cluster_wide(name)?;
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
                tracing::warn!(kind = kind.kind(), name, "a runtime cannot be read: {error}");
                None
            }
        };
        let mut read = self.read.0.lock();
        // Those that are gone.
        read.retain(|(kind, namespace, name), _| match kind {
            RuntimeKind::Namespaced => self.runtimes.named(namespace, name).is_some(),
            RuntimeKind::Cluster => self.cluster_runtimes.cluster_wide(name).is_some(),
        });
        read.insert(id, (version, runtime.clone()));
        runtime
    }
}

impl Cluster for Sources {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        let namespace = match kind {
            RuntimeKind::Cluster => "",
            RuntimeKind::Namespaced => namespace,
        };
        self.read((kind, namespace.to_owned(), name.to_owned()))
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        let map = self.config_maps.named(namespace, name)?;
        let owners = map.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        Some(Snapshot {
            controller: controller.map(|owner| owner.uid.clone()),
            runtime: map.data.as_ref().and_then(|data| data.get(snapshot::KEY)).cloned(),
        })
    }

    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>> {
        read_job_set(self.live(Thing::JobSet, namespace, name)?)
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        if (api_version, kind) == ("scheduling.k8s.io/v1", "PriorityClass") {
            return self.priority_classes.cluster_wide(name).is_some();
        }
        let thing = Thing::of(api_version, kind);
        thing.is_some_and(|thing| self.metadata(thing, namespace, name).is_some())
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let secret = self.secrets.named(namespace, name)?;
        let data = secret.data.clone().unwrap_or_default();
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

/// Of what may be a job's, who owns what is known of our own fields only.
pub fn trim_made<K: Resource>(object: &mut K) {
    if let Some(fields) = &mut object.meta_mut().managed_fields {
        let own = |manager: &Option<String>| manager.as_deref() == Some(FIELD_MANAGER);
        let applied = |operation: &Option<String>| operation.as_deref() == Some("Apply");
        fields.retain(|entry| own(&entry.manager) && applied(&entry.operation));
    }
}

/// Of ConfigMaps of others only the name is kept.
pub fn trim_config_map(map: &mut ConfigMap) {
    if controller(&map.metadata).is_some() {
        return trim_made(map);
    }
    map.data = None;
    map.binary_data = None;
    trim_foreign(&mut map.metadata);
}

/// Of Secrets nothing is kept that is secret: of the coordinator's own certificates those of its authorities, which trainers
/// get that report their progress.
pub fn trim_secret(secret: &mut Secret) {
    let own = secret.metadata.name.as_deref() == Some(CERTS_SECRET);
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| own && key == AUTHORITY);
    }
    secret.data.take_if(|data| data.is_empty());
    secret.string_data = None;
    match controller(&secret.metadata) {
        Some(_) => trim_made(secret),
        None => trim_foreign(&mut secret.metadata),
    }
}

fn trim_foreign(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.labels = None;
    metadata.annotations = None;
}
