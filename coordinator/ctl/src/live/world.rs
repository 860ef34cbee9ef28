//! A cluster to ask questions of: its objects from the API server or from a file, and the engine's settings.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use muster_scheduler::config::{self, Config, Params};
use muster_scheduler::input::{Document, Input, Limits, load};
use muster_scheduler::snapshot::{Snapshot, build};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use super::cluster::Cluster;
use super::kinds::Scope;
use crate::args::{ClusterArgs, EngineArgs};
use crate::{Failure, note, simulate};

/// The coordinator's own name as a scheduler.
pub(super) const SCHEDULER: &str = "muster-scheduler";

/// The shard that a coordinator serves by default.
const SHARD: &str = "default";

/// A cluster to ask questions of.
pub(crate) struct World {
    /// Its objects, as the engine reads them.
    pub(crate) input: Input,
    /// How the scheduler is set up.
    pub(crate) config: Config,
    pub(crate) now: Timestamp,
    /// Schedulers whose pods are ours.
    pub(crate) schedulers: Vec<String>,
    /// What the engine does not read.
    pub(crate) beside: Beside,
    /// Where names are looked for; none is everywhere.
    pub(crate) namespace: Option<String>,
    /// Why only this namespace is known, if so: then nothing can be decided.
    pub(crate) partial: Option<String>,
}

/// What a document has beside what the engine reads: objects as they are written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Beside {
    nodes: ByName,
    pod_groups: ByName,
    bind_requests: ByName,
    owners: Option<Vec<Json>>,
    scheduling_shards: ByName,
    input: Option<Box<Beside>>,
    raw_objects: Option<Box<Beside>>,
}

/// Objects as they are written, by `namespace/name`; a bind request by its pod.
#[derive(Clone, Debug, Default)]
struct ByName(HashMap<String, Json>);

// === impl World ===

impl World {
    /// Asks the cluster, or reads the file.
    pub(crate) fn of(
        engine: &EngineArgs,
        cluster: &ClusterArgs,
        scope: Scope,
    ) -> Result<Self, Failure> {
        let (bytes, namespace, shown) = match &engine.file {
            Some(path) => {
                let bytes = simulate::bytes(path, Limits::default().bytes);
                let bytes = bytes
                    .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
                (bytes, cluster.namespace.clone(), path.as_path())
            }
            None => {
                let asked = Cluster::new(cluster)?;
                let lists = asked.gather(scope, None)?;
                let bytes = serde_json::to_vec(&lists).map_err(Failure::wrong)?;
                let namespace =
                    cluster.namespace.clone().unwrap_or_else(|| asked.namespace().to_owned());
                (
                    bytes,
                    Some(namespace).filter(|_| !cluster.all_namespaces),
                    Path::new("the cluster"),
                )
            }
        };
        let mut world = Self::read(&bytes, shown, engine)?;
        world.namespace = namespace;
        Ok(world)
    }

    /// What can be known by those who may see one namespace only, and why it is no more than that.
    pub(crate) fn near(
        engine: &EngineArgs,
        cluster: &ClusterArgs,
        why: String,
    ) -> Result<Self, Failure> {
        let asked = Cluster::new(cluster)?;
        let namespace = cluster.namespace.as_deref().unwrap_or(asked.namespace());
        let lists = asked.gather(Scope::Near, Some(namespace))?;
        let bytes = serde_json::to_vec(&lists).map_err(Failure::wrong)?;
        let mut world = Self::read(&bytes, Path::new("the cluster"), engine)?;
        world.namespace = Some(namespace.to_owned());
        world.partial = Some(why);
        Ok(world)
    }

    /// Reads a snapshot.
    pub(super) fn read(bytes: &[u8], shown: &Path, engine: &EngineArgs) -> Result<Self, Failure> {
        let unusable =
            |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", shown.display()));
        let document = load(bytes, Limits::default()).map_err(|error| unusable(&error))?;
        let beside = serde_json::from_slice(bytes).map(Beside::inner).unwrap_or_default();
        let mut config = simulate::configuration(engine.config.as_deref(), shown, &document)?;
        if engine.config.is_none() && document.config.is_none() {
            beside.obey_shard(&mut config);
        }
        let own = document.scheduler_params.is_some()
            || config.params.scheduler_name != Params::default().scheduler_name;
        // KAI takes a group of any namespace; a file of KAI's says how it was run.
        if document.scheduler_params.is_none() {
            config.params.groups_by_namespace = true;
            config.params.ignore_impossible_groups = true;
        }
        let Document { mut input, .. } = document;
        for bad in &input.set_aside {
            note(format_args!("set aside: {bad}"));
        }
        let schedulers = match engine.scheduler_name.as_slice() {
            [] if own => vec![config.params.scheduler_name.clone()],
            [] => vec![SCHEDULER.to_owned()],
            names => names.to_vec(),
        };
        adopt(&mut input, &mut config, &schedulers);
        let told = engine.now.as_deref().and_then(|text| text.parse().ok());
        let now = told.or(input.now).unwrap_or_else(Timestamp::now);
        Ok(Self { input, config, now, schedulers, beside, namespace: None, partial: None })
    }

    /// The cluster, ready to decide on.
    pub(crate) fn snapshot(&self) -> Snapshot {
        build(&self.input, &self.config.params, self.now)
    }
}

/// The first scheduler is the engine's; what names another of ours is taken over.
fn adopt(input: &mut Input, config: &mut Config, schedulers: &[String]) {
    let Some(first) = schedulers.first() else { return };
    config.params.scheduler_name.clone_from(first);
    for pod in &mut input.pods {
        if schedulers.iter().skip(1).any(|name| *name == pod.spec.scheduler_name) {
            pod.spec.scheduler_name.clone_from(first);
        }
    }
}

// === impl Beside ===

impl Beside {
    /// The lists themselves, wherever the document has them.
    fn inner(self) -> Self {
        match self {
            Self { input: Some(inner), .. } | Self { raw_objects: Some(inner), .. } => {
                inner.inner()
            }
            lists => lists,
        }
    }

    /// What owns pods, and what owns that.
    pub(crate) fn owners(&self) -> &[Json] {
        self.owners.as_deref().unwrap_or_default()
    }

    /// Decides as the coordinator does: by the shard that it serves. `--config` names a file instead.
    fn obey_shard(&self, config: &mut Config) {
        let Some(shard) = self.scheduling_shards.0.get(&key(None, SHARD)) else { return };
        match config::shard(&shard.to_string(), &[]) {
            Ok(read) => {
                note(format_args!("configuration: SchedulingShard {SHARD}"));
                *config = Config {
                    params: Params {
                        scheduler_name: config.params.scheduler_name.clone(),
                        ..read.params
                    },
                    ..read
                };
            }
            Err(error) => note(format_args!(
                "configuration: defaults, since SchedulingShard {SHARD} cannot be used: {error}"
            )),
        }
    }

    /// A node as it is written.
    pub(crate) fn node(&self, name: &str) -> Option<&Json> {
        self.nodes.0.get(&key(None, name))
    }

    /// A pod group as it is written.
    pub(crate) fn pod_group(&self, namespace: &str, name: &str) -> Option<&Json> {
        self.pod_groups.0.get(&key(Some(namespace), name))
    }

    /// The request to bind a pod, as it is written.
    pub(crate) fn bind_request(&self, namespace: &str, pod: &str) -> Option<&Json> {
        self.bind_requests.0.get(&key(Some(namespace), pod))
    }
}

fn key(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or("default"))
}

// === impl ByName ===

impl<'de> Deserialize<'de> for ByName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let objects = Option::<Vec<Json>>::deserialize(deserializer)?.unwrap_or_default();
        let named = objects.into_iter().map(|object| {
            let metadata = &object["metadata"];
            let name = object["spec"]["podName"].as_str().or_else(|| metadata["name"].as_str());
            (key(metadata["namespace"].as_str(), name.unwrap_or_default()), object)
        });
        Ok(Self(named.collect()))
    }
}
