//! What is remembered of a job between two reconciles, and what one reconcile reads: the caches, with the job's own writes laid
//! over them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use muster_api::job_set::JobSet;
use muster_api::names::JOB_SET_API;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::Snapshot;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use serde_json::Value;
use tokio::time::Instant;

use super::absence::SnapshotAbsence;
use super::caches::{Caches, read_job_set};
use super::owned::{CONFIG_MAP, KindId, SECRET};
use crate::workloads::{Key, same};
use muster_api::kind::RawObject as _;
use muster_runtime::overlay::{Newest, ObjectVersion, Overlay};

/// The same event is not recorded again before.
const REPORTED: Duration = Duration::from_secs(300);

/// What is remembered of a job. All of it may be lost.
#[derive(Default)]
pub struct JobState {
    /// What the API server answered to our writes, until the caches have it.
    pub objects: Overlay<At, Value>,
    /// The job itself, after its status was written.
    pub job: Overlay<(), Value>,
    /// What was applied of kinds that no plugin declares.
    undeclared: BTreeMap<(String, String), Value>,
    /// The last event.
    reported: Option<(Instant, String)>,
    /// What the last reconcile was based on, if it has left nothing to do.
    settled: Option<Basis>,
    /// Whether the snapshot was there, and since when it is not.
    pub snapshot: SnapshotAbsence,
}

/// An object of the job's namespace: kind and name.
pub type At = (KindId, String);

/// What a reconcile was based on, by version. As long as it is the same, another reconcile would decide the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Basis {
    job: String,
    surroundings: u64,
    objects: Versions,
}

/// The version of each object, if it is there.
type Versions = BTreeMap<At, Option<String>>;

/// What a reconcile has read, as it was when it was read first.
#[derive(Debug, Default)]
pub struct ReadLog(RefCell<Versions>);

/// What one reconcile reads.
pub struct View<'a> {
    /// The caches.
    pub caches: &'a Caches,
    /// What was just written.
    pub state: &'a JobState,
    /// Its namespace.
    pub namespace: &'a str,
    /// What it has read.
    pub log: &'a ReadLog,
    /// The time.
    pub now: Instant,
}

// === impl JobState ===

impl JobState {
    /// Forgets what the caches have, and what they should have by now.
    pub fn tidy(&mut self, caches: &Caches, key: &Key, now: Instant) {
        let version = |(kind, name): &At| caches.owned.version(*kind, &key.namespace, name);
        self.objects.tidy(version, now);
        let job = caches.jobs.named(&key.namespace, &key.name);
        let job = job.map(|job| ObjectVersion::from(&job.metadata));
        self.job.settle(&(), job.as_ref(), now);
    }

    /// When the caches should have what was written: a reconcile is due then, if nothing is heard.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        self.objects.due(now).into_iter().chain(self.job.due(now)).min()
    }

    /// Whether nothing that the last reconcile was based on has changed since, but for what it wrote itself.
    pub fn is_settled(&self, caches: &Caches, key: &Key, surroundings: u64, now: Instant) -> bool {
        let Some(settled) = &self.settled else { return false };
        let Some(cached) = caches.jobs.named(&key.namespace, &key.name) else { return false };
        let job = match self.job.written_version(&()) {
            Some(version) => Some(&version.resource_version),
            None => cached.metadata.resource_version.as_ref(),
        };
        let same = |(at, version): (&At, &Option<String>)| {
            self.version(caches, &key.namespace, at, now) == *version
        };
        settled.surroundings == surroundings
            && job == Some(&settled.job)
            && settled.objects.iter().all(same)
    }

    /// A reconcile of this version of the job has left nothing to do until something changes of what it has read.
    pub fn settle(&mut self, job: Option<String>, surroundings: u64, log: ReadLog) {
        let mut objects = log.0.into_inner();
        // What it has written is as it shall be.
        for (at, version) in self.objects.pending() {
            objects.insert(at.clone(), Some(version.resource_version.clone()));
        }
        let written = self.job.written_version(&()).map(|it| it.resource_version.clone());
        self.settled = written.or(job).map(|job| Basis { job, surroundings, objects });
    }

    /// There is something to do.
    pub fn unsettle(&mut self) {
        self.settled = None;
    }

    /// The version of an object by now, if it is there.
    fn version(&self, caches: &Caches, namespace: &str, at: &At, now: Instant) -> Option<String> {
        let cached = caches.owned.version(at.0, namespace, &at.1);
        match self.objects.newest(at, cached.as_ref(), now) {
            Newest::Written(_) => {
                self.objects.written_version(at).map(|it| it.resource_version.clone())
            }
            // Whoever deletes it waits until it is gone.
            Newest::Watched | Newest::Deleted => cached.map(|it| it.resource_version),
        }
    }

    /// The job, as it is now.
    pub fn job(&self, caches: &Caches, key: &Key, now: Instant) -> Option<Value> {
        let cached = caches.jobs.named(&key.namespace, &key.name)?;
        let version = ObjectVersion::from(&cached.metadata);
        Some(match self.job.newest(&(), Some(&version), now) {
            Newest::Written(job) => job.clone(),
            Newest::Watched | Newest::Deleted => cached.object(),
        })
    }

    /// The API server has answered with the job, after a write of its status.
    pub fn patched(&mut self, job: Value, now: Instant) {
        self.job.wrote((), ObjectVersion::of(&job), job, now);
    }

    /// An object of a kind that no plugin declares was applied.
    pub fn applied_undeclared(&mut self, wanted: &Value) {
        let (api_version, kind, name) = identity(wanted);
        let key = (format!("{api_version}/{kind}"), name.to_owned());
        self.undeclared.insert(key, wanted.clone());
    }

    /// Whether an event is worth recording.
    pub fn is_news(&mut self, note: &str, now: Instant) -> bool {
        let known = |(at, reported): &(Instant, String)| {
            reported == note && now.duration_since(*at) < REPORTED
        };
        if self.reported.as_ref().is_some_and(known) {
            return false;
        }
        self.reported = Some((now, note.to_owned()));
        true
    }
}

/// API version, kind and name of an object.
pub fn identity(object: &Value) -> (&str, &str, &str) {
    (
        object["apiVersion"].as_str().unwrap_or_default(),
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default(),
    )
}

// === impl View ===

impl View<'_> {
    /// Whether applying an object would change nothing.
    pub fn has(&self, wanted: &Value) -> bool {
        let (api_version, kind, name) = identity(wanted);
        match self.caches.owned.id(api_version, kind) {
            Some(kind) => {
                let live = self.live(kind, name);
                live.is_some_and(|live| {
                    same::is_applied(wanted, &live, muster_api::names::FIELD_MANAGER)
                })
            }
            None => {
                let key = (format!("{api_version}/{kind}"), name.to_owned());
                self.state.undeclared.get(&key) == Some(wanted)
            }
        }
    }

    /// Notes that an object counts for what is decided.
    pub fn note(&self, kind: KindId, name: &str) {
        let version =
            |at: &(KindId, String)| self.state.version(self.caches, self.namespace, at, self.now);
        let mut log = self.log.0.borrow_mut();
        if let Entry::Vacant(vacant) = log.entry((kind, name.to_owned())) {
            let version = version(vacant.key());
            vacant.insert(version);
        }
    }

    /// The same by the name of its kind.
    pub fn note_kind(&self, (api_version, kind): (&str, &str), name: &str) -> Option<KindId> {
        let kind = self.caches.owned.id(api_version, kind)?;
        self.note(kind, name);
        Some(kind)
    }

    /// An object that was just written, if the caches do not have it yet.
    fn written(&self, kind: KindId, name: &str) -> Option<&Value> {
        let at = (kind, name.to_owned());
        let cached = self.caches.owned.version(kind, self.namespace, name);
        match self.state.objects.newest(&at, cached.as_ref(), self.now) {
            Newest::Written(object) => Some(object),
            Newest::Watched | Newest::Deleted => None,
        }
    }

    fn live(&self, kind: KindId, name: &str) -> Option<Value> {
        self.note(kind, name);
        let written = self.written(kind, name).cloned();
        written.or_else(|| self.caches.owned.live(kind, self.namespace, name))
    }
}

impl Cluster for View<'_> {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        self.caches.runtime(kind, namespace, name)
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        let kind = self.note_kind(CONFIG_MAP, name)?;
        match self.written(kind, name) {
            Some(written) => Some(Snapshot::read(written)),
            None => self.caches.snapshot(namespace, name),
        }
    }

    fn job_set(&self, _: &str, name: &str) -> Option<Arc<JobSet>> {
        let kind = self.caches.owned.id(JOB_SET_API, "JobSet")?;
        read_job_set(self.live(kind, name)?)
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let known = self.note_kind((api_version, kind), name);
        known.is_some_and(|kind| self.written(kind, name).is_some())
            || self.caches.exists(api_version, kind, namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        self.note_kind(SECRET, name);
        self.caches.secret(namespace, name)
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.caches.table_template(name)
    }
}
