//! Configuration that changes while the coordinator runs: KAI's `SchedulingShard` and `Config` objects, watched where the cluster
//! knows them. What they mean is decided in [`muster_scheduler_state::live`]; the leader writes what it has made of them to their
//! conditions.
//!
//! Every coordinator watches, since every one answers webhooks; only the leader schedules and writes.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::Api;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use muster_scheduler_state::live::{self, Admission, CONFIG_NAME, Condition, InForce, Live};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::usage::Past;
use crate::controllers::trainjob::kinds::{Written, written};
use crate::watch::Watch;
use crate::webhook::scheduling::Rules;
use crate::write::{WriteError, Writer};

/// The definitions.
pub mod definition {
    /// Of shards.
    pub const SHARD: &str = "schedulingshards.kai.scheduler";
    /// Of the configuration of KAI's operator.
    pub const CONFIG: &str = "configs.kai.scheduler";
    /// The version that is understood.
    pub const VERSION: &str = "v1";
}

/// After an error conditions are written again.
const AGAIN: Duration = Duration::from_secs(2);

written!(
    /// How pods of a part of the cluster are placed.
    Shard, ClusterResourceScope, "SchedulingShard", "kai.scheduler", "v1", "schedulingshards"
);
written!(
    /// What KAI's operator would install.
    KaiConfig, ClusterResourceScope, "Config", "kai.scheduler", "v1", "configs"
);

/// The objects.
#[derive(Clone)]
pub struct Objects {
    /// Shards.
    pub shards: Watch<Shard>,
    /// Configurations; one of them is read.
    pub configs: Watch<KaiConfig>,
}

/// What decides on it.
pub struct Followed {
    /// The objects.
    pub objects: Objects,
    /// Whether past use is known, where it counts.
    pub past: watch::Receiver<Past>,
}

/// What is in force, to follow; none before the objects have been listed.
pub type Following = watch::Receiver<Option<Arc<InForce>>>;

// === impl Objects ===

impl Objects {
    /// The rules of admission with what `kai-config` says of them.
    pub fn rules(&self, flags: &Rules) -> Rules {
        let mut rules = flags.clone();
        let Some(config) = self.configs.cluster_wide(CONFIG_NAME) else { return rules };
        let Admission { enabled, gpu_sharing, block_visible_devices, runtime_class } =
            Admission::read(config.rest.get("spec").unwrap_or(&Value::Null));
        rules.ignore_pods = enabled == Some(false);
        rules.block_visible_devices =
            block_visible_devices.unwrap_or(rules.block_visible_devices) && !rules.ignore_pods;
        let sharing = &mut rules.sharing;
        sharing.enabled = gpu_sharing.unwrap_or(sharing.enabled);
        if let Some(class) = runtime_class {
            sharing.runtime_class = class;
        }
        rules
    }

    fn read(&self) -> (Vec<live::Written>, Option<live::Written>) {
        let mut shards: Vec<_> = self.shards.all().iter().map(|one| read(&**one)).collect();
        shards.sort_by(|one, other| one.name.cmp(&other.name));
        (shards, self.configs.cluster_wide(CONFIG_NAME).map(|one| read(&*one)))
    }
}

/// Tells whether containers are kept from choosing devices, by flags and `kai-config`, until stopped.
pub async fn blocking(
    objects: Objects,
    flags: Rules,
    tell: watch::Sender<bool>,
    stop: CancellationToken,
) {
    let work = async {
        let mut changes = objects.configs.subscribe();
        objects.configs.ready().await;
        loop {
            let now = objects.rules(&flags).block_visible_devices;
            tell.send_if_modified(|before| std::mem::replace(before, now) != now);
            // Who is behind looks at all there is, as always.
            if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                return;
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Resolves the objects whenever they change, and writes their conditions, until stopped.
pub async fn follow(
    mut live: Live,
    followed: Followed,
    writer: Writer,
    tell: watch::Sender<Option<Arc<InForce>>>,
    stop: CancellationToken,
) {
    let Followed { objects, mut past } = followed;
    let work = async {
        let (mut shards, mut configs) = (objects.shards.subscribe(), objects.configs.subscribe());
        objects.shards.ready().await;
        objects.configs.ready().await;
        loop {
            let (all, kai) = objects.read();
            let missing = past.borrow_and_update().missing().map(str::to_owned);
            let resolved = live.resolve(&all, kai.as_ref(), missing.as_deref());
            let now = Arc::new(resolved.in_force);
            tell.send_if_modified(|before| {
                let changed = before.as_ref() != Some(&now);
                if changed {
                    log(&now);
                    *before = Some(now);
                }
                changed
            });
            let mut done = true;
            for (name, conditions) in &resolved.shards {
                let object = objects.shards.cluster_wide(name);
                done &= write(&writer, object.as_deref(), conditions).await;
            }
            if let Some(conditions) = &resolved.config {
                let object = objects.configs.cluster_wide(CONFIG_NAME);
                done &= write(&writer, object.as_deref(), conditions).await;
            }
            // Whatever was missed, the next look sees it.
            tokio::select! {
                _heard = shards.recv() => {}
                _heard = configs.recv() => {}
                Ok(()) = past.changed() => {}
                () = tokio::time::sleep(AGAIN), if !done => {}
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Writes conditions that differ. Whether there is nothing left to write.
async fn write<K>(writer: &Writer, object: Option<&K>, conditions: &[Condition]) -> bool
where
    K: Written + Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K: Resource<Scope = kube::core::ClusterResourceScope>,
{
    let Some(object) = object.filter(|one| one.meta().deletion_timestamp.is_none()) else {
        return true;
    };
    let whole = object.object();
    let before = whole.pointer("/status/conditions").unwrap_or(&Value::Null);
    let now = format!("{:.0}", Timestamp::now());
    let Some(all) = live::merge(before, conditions, &now) else { return true };
    let version = object.resource_version();
    let change = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}});
    let api: Api<K> = Api::all(writer.client().clone());
    let name = object.name_any();
    match writer.merge_status(&api, &name, &change).await {
        Ok(_) | Err(WriteError::Gone { .. } | WriteError::Deposed(_)) => true,
        // Somebody was faster: the watch shows what it has become.
        Err(WriteError::Conflict { .. }) => false,
        Err(error) => {
            let kind = K::kind(&());
            let reason = error.reason();
            tracing::warn!(%kind, name, reason, "its conditions are written later: {error}");
            false
        }
    }
}

fn read<K: Written + Resource<DynamicType = ()>>(object: &K) -> live::Written {
    let mut whole = object.object();
    live::Written {
        name: object.name_any(),
        generation: object.meta().generation.unwrap_or_default(),
        spec: whole.get_mut("spec").map(Value::take).unwrap_or(Value::Null),
    }
}

fn log(now: &InForce) {
    let InForce { source, switches, problem, ignored, config } = now;
    tracing::info!(%source, paused = switches.paused, "the scheduler's configuration is in force");
    for note in &config.notes {
        tracing::warn!(reason = "scheduler-config", "{source}: {note}");
    }
    if let Some(problem) = problem {
        tracing::warn!(reason = "scheduler-config", "the shard is not obeyed: {problem}");
    }
    if let Some(ignored) = ignored {
        tracing::warn!(reason = "scheduler-config", "kai-config is not obeyed in all: {ignored}");
    }
}
