//! The runtime controller: a runtime that TrainJobs use carries a finalizer, so that it cannot vanish under them. Which jobs
//! count is a rule of the cluster, `--runtime-finalizer`.
//!
//! ```text
//!   TrainJobs ─watch─▶ who uses what ─▶ muster_pipeline::in_use ─▶ the finalizer, on or off
//!   runtimes  ─watch─▶ what has it  ──▶                            and who keeps what is being deleted, as a condition
//! ```
//!
//! Nothing is remembered over a restart: what has the finalizer and is not used loses it, whenever its jobs went.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use muster_api::TrainJob;
use muster_pipeline::conditions::{self, DELETING, Wanted};
use muster_pipeline::in_use::{self, HoldRule, Holders};
use muster_pipeline::runtime::RuntimeKind;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::caches::{Caches, RuntimeId};
use super::kinds::{ClusterRuntime, Job, LocalRuntime, version};
use crate::workloads::{Key, key_of};
use muster_api::kind::RawObject as _;
use muster_runtime::ObjectMetrics;
use muster_runtime::index::OwnerIndex;
use muster_runtime::reconciler::{Context, Reconciler, Requeue};
use muster_runtime::reflector::is_newer;
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::writer::WriteError;

/// Keeps the finalizers of runtimes right.
pub struct RuntimeController {
    caches: Caches,
    rule: HoldRule,
    metrics: ObjectMetrics,
    /// The runtime that each job keeps.
    usage: Arc<Mutex<OwnerIndex<Key, RuntimeId>>>,
}

/// The version that our last write made of a runtime, until the caches have it.
#[derive(Debug, Default)]
pub struct RuntimeState {
    written: Option<String>,
}

// === impl RuntimeController ===

impl RuntimeController {
    /// Reads these caches, and counts its writes here.
    pub fn new(caches: Caches, rule: HoldRule, metrics: ObjectMetrics) -> Self {
        Self { caches, rule, metrics, usage: Arc::default() }
    }

    /// Writes a change of a runtime; its version then.
    async fn write(
        &self,
        context: &Context,
        id: &RuntimeId,
        change: &Value,
    ) -> Result<String, WriteError> {
        let (writer, RuntimeId { kind, namespace, name }) = (&context.writer, id);
        match kind {
            RuntimeKind::Namespaced => {
                let api = writer.namespaced::<LocalRuntime>(namespace);
                writer.merge(&api, name, change).await.map(|it| version(&it))
            }
            RuntimeKind::Cluster => {
                let api = writer.all::<ClusterRuntime>();
                writer.merge(&api, name, change).await.map(|it| version(&it))
            }
        }
    }
}

impl Reconciler for RuntimeController {
    type Key = RuntimeId;
    type State = RuntimeState;
    type Error = WriteError;

    const NAME: &'static str = "runtime";
    const PARALLEL: usize = 8;

    fn watches(&self) -> Vec<WatchSource<RuntimeId>> {
        let Caches { jobs, runtimes, cluster_runtimes, .. } = &self.caches;
        let (known, usage, rule) = (jobs.clone(), Arc::clone(&self.usage), self.rule);
        vec![
            WatchSource::objects(jobs, move |job| {
                let key = Key::new(job.namespace.unwrap_or_default(), job.name);
                let job = known.named(&key.namespace, &key.name);
                let used = job.as_deref().and_then(|job| held(rule, job));
                let mut usage = usage.lock();
                // Only if it keeps another one than before.
                match usage.owner(&key) == used.as_ref() {
                    true => Wake::none(),
                    false => Wake::Keys(usage.set(key, used)),
                }
            }),
            WatchSource::objects(runtimes, |runtime| {
                let namespace = runtime.namespace.unwrap_or_default();
                Wake::key(RuntimeId::new(RuntimeKind::Namespaced, &namespace, &runtime.name))
            }),
            WatchSource::objects(cluster_runtimes, |runtime| {
                Wake::key(RuntimeId::new(RuntimeKind::Cluster, "", &runtime.name))
            }),
        ]
    }

    fn keys(&self) -> Vec<RuntimeId> {
        let jobs = self.caches.jobs.all();
        let mut usage = OwnerIndex::default();
        for job in &jobs {
            usage.set(key_of(&job.metadata), held(self.rule, job));
        }
        *self.usage.lock() = usage;
        let local = self.caches.runtimes.all();
        let cluster = self.caches.cluster_runtimes.all();
        let id = |kind, metadata: &ObjectMeta| {
            let key = key_of(metadata);
            RuntimeId::new(kind, &key.namespace, &key.name)
        };
        let local = local.iter().map(|it| id(RuntimeKind::Namespaced, &it.metadata));
        local.chain(cluster.iter().map(|it| id(RuntimeKind::Cluster, &it.metadata))).collect()
    }

    /// Puts the finalizer on a runtime, or takes it off, and says on one that is being deleted who keeps it.
    async fn reconcile(
        &self,
        id: &RuntimeId,
        state: &mut RuntimeState,
        context: &Context,
    ) -> Result<Requeue, WriteError> {
        let Some((metadata, conditions)) = known(&self.caches, id) else {
            return Ok(Requeue::Gone);
        };
        // What we have written is on its way here, and with it another reconcile.
        let seen = metadata.resource_version.as_deref().unwrap_or_default();
        if state.written.as_ref().is_some_and(|written| is_newer(written, seen)) {
            return Ok(Requeue::OnChange);
        }
        state.written = None;
        let users: HashSet<Key> = self.usage.lock().owned(id).cloned().collect();
        let Some(mut change) = change(&metadata, conditions, &users, context.timestamp()) else {
            return Ok(Requeue::OnChange);
        };
        // A list is replaced as a whole: not if somebody else has changed it.
        let read = &metadata.resource_version;
        change["metadata"]["resourceVersion"] = json!(read);
        match self.write(context, id, &change).await {
            Ok(version) => {
                state.written = Some(version);
                self.metrics.wrote("finalizer", id.kind.kind());
                if let Some(finalizers) = change["metadata"].get("finalizers") {
                    tracing::info!(runtime = %id, %finalizers, "a runtime's finalizers have changed");
                }
                Ok(Requeue::OnChange)
            }
            Err(WriteError::Gone { .. }) => Ok(Requeue::OnChange),
            // News of it are on their way, and with them another reconcile.
            Err(WriteError::Conflict { .. }) if is_old(&self.caches, id, read.as_deref()) => {
                Ok(Requeue::OnChange)
            }
            Err(error) => {
                self.metrics.failed(error.reason());
                Err(error)
            }
        }
    }
}

/// A runtime's metadata and conditions, as the caches have them.
fn known(caches: &Caches, id: &RuntimeId) -> Option<(ObjectMeta, Vec<Condition>)> {
    Some(match id.kind {
        RuntimeKind::Namespaced => {
            let found = caches.runtimes.named(&id.namespace, &id.name)?;
            (found.metadata.clone(), conditions_of(&found.rest))
        }
        RuntimeKind::Cluster => {
            let found = caches.cluster_runtimes.cluster_wide(&id.name)?;
            (found.metadata.clone(), conditions_of(&found.rest))
        }
    })
}

/// Conditions that cannot be read are replaced.
fn conditions_of(object: &Map<String, Value>) -> Vec<Condition> {
    let conditions = object.get("status").and_then(|status| status.get("conditions"));
    conditions.and_then(|all| serde_json::from_value(all.clone()).ok()).unwrap_or_default()
}

/// What is to be written of a runtime that these jobs keep; none if it is as it should be.
fn change(
    metadata: &ObjectMeta,
    mut conditions: Vec<Condition>,
    users: &HashSet<Key>,
    since: jiff::Timestamp,
) -> Option<Value> {
    let (mut after, mut change) = (metadata.clone(), json!({"metadata": {}}));
    let finalizers = in_use::finalizers(metadata, !users.is_empty());
    if let Some(finalizers) = &finalizers {
        change["metadata"]["finalizers"] = json!(finalizers);
        after.finalizers = Some(finalizers.clone());
    }
    let before = conditions.clone();
    if let Some(holders) = Holders::of(&after, users.iter().map(ToString::to_string)) {
        let (reason, message) = (holders.reason(), &holders.message());
        let wanted = Wanted { kind: DELETING, holds: true, reason, message, since };
        conditions::set(&mut conditions, &wanted);
        if conditions != before {
            change["status"] = json!({"conditions": conditions});
        }
    }
    (finalizers.is_some() || conditions != before).then_some(change)
}

/// The jobs that keep a runtime, as `namespace/name`: what the webhook says of one that is being deleted.
pub fn holding_jobs(caches: &Caches, rule: HoldRule, id: &RuntimeId) -> Vec<String> {
    let jobs = caches.jobs.all();
    let holding = jobs.iter().filter(|job| held(rule, job).as_ref() == Some(id));
    holding
        .map(|job| format!("{}/{}", job.namespace().unwrap_or_default(), job.name_any()))
        .collect()
}

/// Whether another version is known by now.
fn is_old(caches: &Caches, id: &RuntimeId, version: Option<&str>) -> bool {
    let now = known(caches, id).and_then(|(metadata, _)| metadata.resource_version);
    now.as_deref() != version
}

/// The runtime that a job keeps.
fn held(rule: HoldRule, job: &Job) -> Option<RuntimeId> {
    if rule == HoldRule::Off {
        return None;
    }
    let job: TrainJob = serde_json::from_value(job.object()).ok()?;
    if !rule.holds(&job) {
        return None;
    }
    let (kind, namespace, name) = in_use::used_by(&job)?;
    Some(RuntimeId::new(kind, namespace.unwrap_or_default(), name))
}
