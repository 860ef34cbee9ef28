//! Configuration that changes while the coordinator runs: KAI's `SchedulingShard` and `Config` objects, watched where the cluster
//! knows them. What they mean is decided in [`muster_scheduler_state::live`]; the leader writes what it has made of them to their
//! conditions.
//!
//! Every coordinator watches, since every one answers webhooks; only the leader schedules and writes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource, ResourceExt as _};
use muster_scheduler_state::live::{
    self, Admission, CONFIG_NAME, Condition, Contest, InForce, Live, Turn,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::usage::Past;
use crate::admission::Rules;
use muster_api::kind::RawObject;
use muster_api::raw_kind;
use muster_runtime::reflector::Watch;
use muster_runtime::writer::{WriteError, Writer};

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

raw_kind!(
    /// How pods of a part of the cluster are placed.
    Shard, ClusterResourceScope, "SchedulingShard", "kai.scheduler", "v1", "schedulingshards"
);
raw_kind!(
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

/// How it goes with the conditions of each object, by kind and name: somebody else may write them as well.
#[derive(Default)]
struct Contests {
    of: BTreeMap<(String, String), Contest>,
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
    let mut contests = Contests::default();
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
            // None as long as nothing is left to write.
            let mut again: Option<Duration> = None;
            for (name, conditions) in &resolved.shards {
                let object = objects.shards.cluster_wide(name);
                let left = contests.write(&writer, object.as_deref(), conditions).await;
                again = again.into_iter().chain(left).min();
            }
            if let Some(conditions) = &resolved.config {
                let object = objects.configs.cluster_wide(CONFIG_NAME);
                let left = contests.write(&writer, object.as_deref(), conditions).await;
                again = again.into_iter().chain(left).min();
            }
            contests.forget(&resolved.shards);
            // Whatever was missed, the next look sees it.
            tokio::select! {
                _heard = shards.recv() => {}
                _heard = configs.recv() => {}
                Ok(()) = past.changed() => {}
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

// === impl Contests ===

impl Contests {
    /// Writes conditions that differ, unless somebody else keeps writing them, too. After how long there is more to do, if
    /// there is.
    async fn write<K>(
        &mut self,
        writer: &Writer,
        object: Option<&K>,
        conditions: &[Condition],
    ) -> Option<Duration>
    where
        K: RawObject + Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
        K: Resource<Scope = kube::core::ClusterResourceScope>,
    {
        let object = object.filter(|one| one.meta().deletion_timestamp.is_none())?;
        let whole = object.object();
        let before = whole.pointer("/status/conditions").unwrap_or(&Value::Null);
        let now = Timestamp::now();
        let all = live::merge(before, conditions, &format!("{now:.0}"))?;
        let (kind, name) = (K::kind(&()), object.name_any());
        let version = object.resource_version().unwrap_or_default();
        let contest = self.of.entry((kind.to_string(), name.clone())).or_default();
        match contest.turn(conditions, &version, now) {
            Turn::Write => {}
            Turn::Wait(left) => return Some(left.unsigned_abs()),
            Turn::Contested(pause) => {
                let seconds = pause.as_secs();
                tracing::warn!(
                    %kind, name, reason = "conditions-contested", seconds,
                    "somebody else keeps writing its conditions: if KAI's operator runs, stop it (kubectl scale deployment \
                     -n kai-scheduler kai-operator --replicas=0). Ours are written again later"
                );
                return Some(pause.unsigned_abs());
            }
        }
        let change =
            json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}});
        match writer.merge_status(&writer.all::<K>(), &name, &change).await {
            Ok(_) => {
                contest.wrote(conditions, &version);
                None
            }
            Err(WriteError::Gone { .. } | WriteError::NotLeader(_)) => None,
            // Somebody was faster: the watch shows what it has become.
            Err(WriteError::Conflict { .. }) => Some(AGAIN),
            Err(error) => {
                let reason = error.reason();
                tracing::warn!(%kind, name, reason, "its conditions are written later: {error}");
                Some(AGAIN)
            }
        }
    }

    /// Shards that are gone are no longer fought over.
    fn forget(&mut self, shards: &[(String, Vec<Condition>)]) {
        let config = KaiConfig::kind(&());
        self.of.retain(|(kind, name), _| {
            *kind == *config || shards.iter().any(|(shard, _)| shard == name)
        });
    }
}

fn read<K: RawObject + Resource<DynamicType = ()>>(object: &K) -> live::Written {
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
