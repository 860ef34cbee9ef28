//! The runtime controllers: a runtime that TrainJobs use carries a finalizer, so that it cannot vanish under them. Which jobs
//! count is a rule of the cluster, `--runtime-finalizer`.
//!
//! ```text
//!   TrainJobs ─watch─▶ who uses what ─▶ muster_pipeline::in_use ─▶ the finalizer, on or off
//!   runtimes  ─watch─▶ what has it  ──▶                            and who keeps what is being deleted, as a condition
//! ```
//!
//! Nothing is remembered over a restart: what has the finalizer and is not used loses it, whenever its jobs went.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use muster_api::TrainJob;
use muster_pipeline::conditions::{self, DELETING, Wanted};
use muster_pipeline::in_use::{self, HoldRule, Holders};
use muster_pipeline::runtime::RuntimeKind;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;

use super::trainjob::kinds::{ClusterRuntime, Job, LocalRuntime, Written as _, version};
use super::trainjob::sources::{RuntimeId, Sources};
use super::trainjob::{Key, Metrics};
use crate::watch::{Missed, drain, heard, is_newer};
use crate::write::{WriteError, Writer};

/// After an error it is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// What has changed.
enum Change {
    Job(Key),
    Runtime(RuntimeId),
    All,
}

/// What is heard.
struct Feed {
    jobs: Receiver<ObjectRef<Job>>,
    local: Receiver<ObjectRef<LocalRuntime>>,
    cluster: Receiver<ObjectRef<ClusterRuntime>>,
}

/// Who uses what.
struct Usage {
    rule: HoldRule,
    runtimes: HashMap<Key, RuntimeId>,
    users: HashMap<RuntimeId, HashSet<Key>>,
    /// The version that our last write made of a runtime, until the caches have it.
    written: HashMap<RuntimeId, String>,
}

/// Keeps the finalizers right until it is stopped, or until this coordinator does not lead any more.
pub async fn run(
    sources: Sources,
    rule: HoldRule,
    writer: Writer,
    metrics: Metrics,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.ready() => {}
    }
    let mut feed = Feed::new(&sources);
    let (mut usage, mut open) = (Usage::new(rule), BTreeSet::new());
    take(&sources, &mut usage, &mut open, Change::All);
    loop {
        let mut failed = false;
        for id in std::mem::take(&mut open) {
            match settle(&sources, &mut usage, &writer, &id).await {
                Ok(wrote) => {
                    if wrote {
                        metrics.wrote("finalizer", id.0.kind());
                    }
                }
                Err(WriteError::Deposed(_)) => return,
                Err(error) => {
                    metrics.failed(error.reason());
                    tracing::debug!(
                        reason = error.reason(),
                        "a finalizer cannot be written: {error}"
                    );
                    failed = true;
                    open.insert(id);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            change = feed.next() => match change {
                Some(change) => take(&sources, &mut usage, &mut open, change),
                None => return,
            },
            () = tokio::time::sleep(AGAIN), if failed => {}
        }
        for change in feed.more() {
            take(&sources, &mut usage, &mut open, change);
        }
    }
}

/// Notes what has changed, and which runtimes are to be looked at.
fn take(sources: &Sources, usage: &mut Usage, open: &mut BTreeSet<RuntimeId>, change: Change) {
    match change {
        Change::Runtime(id) => {
            open.insert(id);
        }
        Change::Job(key) => {
            let job = sources.jobs.named(&key.namespace, &key.name);
            let used = job.as_deref().and_then(|job| held(usage.rule, job));
            open.extend(usage.note(key, used));
        }
        Change::All => {
            let jobs = sources.jobs.all();
            let now: HashMap<Key, Option<RuntimeId>> =
                jobs.iter().map(|job| (key(job), held(usage.rule, job))).collect();
            let gone = usage.runtimes.keys().filter(|key| !now.contains_key(key));
            let gone: Vec<Key> = gone.cloned().collect();
            gone.into_iter().for_each(|key| open.extend(usage.note(key, None)));
            now.into_iter().for_each(|(key, used)| open.extend(usage.note(key, used)));
            let (local, cluster) = (sources.runtimes.all(), sources.cluster_runtimes.all());
            open.extend(local.iter().map(|it| local_id(&it.metadata)));
            open.extend(cluster.iter().map(|it| cluster_id(&it.metadata)));
        }
    }
}

/// Puts the finalizer on a runtime, or takes it off, and says on one that is being deleted who keeps it. Whether something
/// was written.
async fn settle(
    sources: &Sources,
    usage: &mut Usage,
    writer: &Writer,
    id: &RuntimeId,
) -> Result<bool, WriteError> {
    let (kind, namespace, name) = id;
    let Some((metadata, conditions)) = known(sources, id) else { return Ok(false) };
    // What we have written is on its way here, and with it another look.
    let seen = metadata.resource_version.as_deref().unwrap_or_default();
    if usage.written.get(id).is_some_and(|written| is_newer(written, seen)) {
        return Ok(false);
    }
    usage.written.remove(id);
    let Some(mut change) = change(&metadata, conditions, usage.users.get(id)) else {
        return Ok(false);
    };
    // A list is replaced as a whole: not if somebody else has changed it.
    let read = &metadata.resource_version;
    change["metadata"]["resourceVersion"] = json!(read);
    let client = writer.client().clone();
    let written = match kind {
        RuntimeKind::Namespaced => {
            let api: Api<LocalRuntime> = Api::namespaced(client, namespace);
            writer.merge(&api, name, &change).await.map(|it| version(&it))
        }
        RuntimeKind::Cluster => {
            let api: Api<ClusterRuntime> = Api::all(client);
            writer.merge(&api, name, &change).await.map(|it| version(&it))
        }
    };
    match written {
        Ok(version) => {
            usage.written.insert(id.clone(), version);
            if let Some(finalizers) = change["metadata"].get("finalizers") {
                let kind = kind.kind();
                tracing::info!(kind, namespace, name, %finalizers, "a runtime's finalizers have changed");
            }
            Ok(true)
        }
        Err(WriteError::Gone { .. }) => Ok(false),
        // News of it are on their way, and with them another look.
        Err(WriteError::Conflict { .. }) if is_old(sources, id, read.as_deref()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A runtime's metadata and conditions, as the caches have them.
fn known(sources: &Sources, id: &RuntimeId) -> Option<(ObjectMeta, Vec<Condition>)> {
    let (kind, namespace, name) = id;
    Some(match kind {
        RuntimeKind::Namespaced => {
            let found = sources.runtimes.named(namespace, name)?;
            (found.metadata.clone(), conditions_of(&found.rest))
        }
        RuntimeKind::Cluster => {
            let found = sources.cluster_runtimes.cluster_wide(name)?;
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
    users: Option<&HashSet<Key>>,
) -> Option<Value> {
    let (mut after, mut change) = (metadata.clone(), json!({"metadata": {}}));
    let finalizers = in_use::finalizers(metadata, users.is_some());
    if let Some(finalizers) = &finalizers {
        change["metadata"]["finalizers"] = json!(finalizers);
        after.finalizers = Some(finalizers.clone());
    }
    let before = conditions.clone();
    let jobs = users.into_iter().flatten().map(|key| format!("{}/{}", key.namespace, key.name));
    if let Some(holders) = Holders::of(&after, jobs) {
        let (reason, message) = (holders.reason(), &holders.message());
        let since = jiff::Timestamp::now();
        let wanted = Wanted { kind: DELETING, holds: true, reason, message, since };
        conditions::set(&mut conditions, &wanted);
        if conditions != before {
            change["status"] = json!({"conditions": conditions});
        }
    }
    (finalizers.is_some() || conditions != before).then_some(change)
}

/// The jobs that keep a runtime, as `namespace/name`: what the webhook says of one that is being deleted.
pub fn holding_jobs(sources: &Sources, rule: HoldRule, id: &RuntimeId) -> Vec<String> {
    let jobs = sources.jobs.all();
    let holding = jobs.iter().filter(|job| held(rule, job).as_ref() == Some(id));
    holding
        .map(|job| format!("{}/{}", job.namespace().unwrap_or_default(), job.name_any()))
        .collect()
}

/// Whether another version is known by now.
fn is_old(sources: &Sources, id: &RuntimeId, version: Option<&str>) -> bool {
    let (kind, namespace, name) = id;
    let now = match kind {
        RuntimeKind::Namespaced => {
            sources.runtimes.named(namespace, name).and_then(|it| it.resource_version())
        }
        RuntimeKind::Cluster => {
            sources.cluster_runtimes.cluster_wide(name).and_then(|it| it.resource_version())
        }
    };
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
    Some((kind, namespace.unwrap_or_default().to_owned(), name.to_owned()))
}

fn key(job: &Job) -> Key {
    Key { namespace: job.namespace().unwrap_or_default(), name: job.name_any() }
}

fn local_id(metadata: &ObjectMeta) -> RuntimeId {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (RuntimeKind::Namespaced, part(&metadata.namespace), part(&metadata.name))
}

fn cluster_id(metadata: &ObjectMeta) -> RuntimeId {
    (RuntimeKind::Cluster, String::new(), metadata.name.clone().unwrap_or_default())
}

// === impl Usage ===

impl Usage {
    fn new(rule: HoldRule) -> Self {
        let (runtimes, users, written) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { rule, runtimes, users, written }
    }

    /// A job keeps this now; the runtimes for which that may change something.
    fn note(&mut self, job: Key, now: Option<RuntimeId>) -> Vec<RuntimeId> {
        let before = match &now {
            Some(id) => self.runtimes.insert(job.clone(), id.clone()),
            None => self.runtimes.remove(&job),
        };
        if before == now {
            return Vec::new();
        }
        if let Some(before) = &before
            && let Some(users) = self.users.get_mut(before)
        {
            users.remove(&job);
            if users.is_empty() {
                self.users.remove(before);
            }
        }
        if let Some(now) = &now {
            self.users.entry(now.clone()).or_default().insert(job);
        }
        before.into_iter().chain(now).collect()
    }
}

// === impl Feed ===

impl Feed {
    fn new(sources: &Sources) -> Self {
        Self {
            jobs: sources.jobs.subscribe(),
            local: sources.runtimes.subscribe(),
            cluster: sources.cluster_runtimes.subscribe(),
        }
    }

    async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            change = self.jobs.recv() => heard(change, of_job),
            change = self.local.recv() => heard(change, of_local),
            change = self.cluster.recv() => heard(change, of_cluster),
        }
    }

    fn more(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        drain(&mut self.jobs, &mut changes, of_job);
        drain(&mut self.local, &mut changes, of_local);
        drain(&mut self.cluster, &mut changes, of_cluster);
        changes
    }
}

fn of_job(job: ObjectRef<Job>) -> Change {
    Change::Job(Key { namespace: job.namespace.unwrap_or_default(), name: job.name })
}

fn of_local(runtime: ObjectRef<LocalRuntime>) -> Change {
    let namespace = runtime.namespace.unwrap_or_default();
    Change::Runtime((RuntimeKind::Namespaced, namespace, runtime.name))
}

fn of_cluster(runtime: ObjectRef<ClusterRuntime>) -> Change {
    Change::Runtime((RuntimeKind::Cluster, String::new(), runtime.name))
}

impl Missed for Change {
    fn missed() -> Self {
        Self::All
    }
}
