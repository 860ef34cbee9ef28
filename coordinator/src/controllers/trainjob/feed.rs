//! What has changed, and which TrainJobs that concerns.

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Key;
use super::kinds::{
    ClusterRuntime, CoschedulingGroup, Job, KaiGroup, LocalRuntime, Thing, VolcanoGroup, Workload,
};
use super::sources::Sources;
use crate::watch::{Missed, drain, heard};

/// One change.
#[derive(Debug)]
pub enum Change {
    /// Of a job.
    Job(Key),
    /// Of something that may be a job's: kind, namespace, name, and the uid of what has changed or gone.
    Thing(Thing, String, String, Option<String>),
    /// Of the LimitRanges of a namespace.
    LimitRange(String),
    /// Of a RuntimeClass.
    RuntimeClass(String),
    /// Of a runtime, a template, or of what the cluster knows: what could not be done may be possible now.
    Surroundings,
    /// Something was missed: look at everything.
    All,
}

/// What each receiver says.
macro_rules! feeds {
    ($($name:ident: $kind:ty => $change:expr),* $(,)?) => {
        /// Everything that may change.
        pub struct Feed {
            $($name: Receiver<ObjectRef<$kind>>,)*
            definitions: Vec<Receiver<ObjectRef<CustomResourceDefinition>>>,
        }

        impl Feed {
            /// The next change. None when a source has ended.
            pub async fn next(&mut self) -> Option<Change> {
                tokio::select! {
                    $(change = self.$name.recv() => heard(change, $change),)*
                    change = any(&mut self.definitions) => heard(change, |_| Change::Surroundings),
                }
            }

            /// What has come in the meantime.
            pub fn more(&mut self) -> Vec<Change> {
                let mut changes = Vec::new();
                $(drain(&mut self.$name, &mut changes, $change);)*
                for one in &mut self.definitions {
                    drain(one, &mut changes, |_| Change::Surroundings);
                }
                changes
            }
        }
    };
}

feeds! {
    jobs: Job => |one| { let (namespace, name) = place(one); Change::Job(Key { namespace, name }) },
    job_sets: Workload => |one| thing(Thing::JobSet, one),
    config_maps: ConfigMap => |one| thing(Thing::ConfigMap, one),
    secrets: Secret => |one| thing(Thing::Secret, one),
    coscheduling: CoschedulingGroup => |one| thing(Thing::Coscheduling, one),
    volcano: VolcanoGroup => |one| thing(Thing::Volcano, one),
    kai: KaiGroup => |one| thing(Thing::Kai, one),
    limit_ranges: LimitRange => |one| Change::LimitRange(place(one).0),
    runtime_classes: RuntimeClass => |one| Change::RuntimeClass(place(one).1),
    runtimes: LocalRuntime => |_| Change::Surroundings,
    cluster_runtimes: ClusterRuntime => |_| Change::Surroundings,
    templates: ConfigMap => |_| Change::Surroundings,
}

// === impl Feed ===

impl Feed {
    /// Hears from now on.
    pub fn new(sources: &Sources) -> Self {
        Self {
            jobs: sources.jobs.subscribe(),
            job_sets: sources.job_sets.subscribe(),
            config_maps: sources.config_maps.subscribe(),
            secrets: sources.secrets.subscribe(),
            coscheduling: sources.coscheduling.subscribe(),
            volcano: sources.volcano.subscribe(),
            kai: sources.kai.subscribe(),
            limit_ranges: sources.limit_ranges.subscribe(),
            runtime_classes: sources.runtime_classes.subscribe(),
            runtimes: sources.runtimes.subscribe(),
            cluster_runtimes: sources.cluster_runtimes.subscribe(),
            templates: sources.templates.maps().subscribe(),
            definitions: sources.definitions.iter().map(|one| one.subscribe()).collect(),
        }
    }
}

/// What the first of several says.
async fn any<T: Clone>(receivers: &mut [Receiver<T>]) -> Result<T, RecvError> {
    if receivers.is_empty() {
        return std::future::pending().await;
    }
    let each = receivers.iter_mut().map(|receiver| Box::pin(receiver.recv()));
    futures::future::select_all(each).await.0
}

fn thing<K: Resource>(thing: Thing, object: ObjectRef<K>) -> Change {
    let uid = object.extra.uid.clone();
    let (namespace, name) = place(object);
    Change::Thing(thing, namespace, name, uid)
}

fn place<K: Resource>(object: ObjectRef<K>) -> (String, String) {
    (object.namespace.unwrap_or_default(), object.name)
}

impl Missed for Change {
    fn missed() -> Self {
        Self::All
    }
}
