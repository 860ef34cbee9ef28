//! What one job sees: the caches, and what was just written for it and is not in them yet.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_api::job_set::JobSet;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::Snapshot;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use serde_json::Value;
use tokio::time::Instant;

use super::absence::SnapshotAbsence;
use super::kinds::{Thing, Written as _};
use super::sources::{Sources, read_job_set};
use super::{Key, same};
use crate::watch::is_newer;

/// What was written is believed this long, if nothing is heard of it.
pub const BELIEVED: Duration = Duration::from_secs(5);

/// Things that have gone and are remembered. With more at once, what was written is believed for [`BELIEVED`].
const MOST_GONE: usize = 4096;

/// The same event is not said again before.
const SAID: Duration = Duration::from_secs(300);

/// What is remembered of a job. All of it may be lost.
#[derive(Debug, Default)]
pub struct Kept {
    /// What the API server answered to our writes, until the caches have it.
    made: BTreeMap<(Thing, String), (Instant, Value)>,
    /// The job itself, after its status was written.
    job: Option<(Instant, Value)>,
    /// The JobSet that was deleted, until the caches have that.
    deleted: Option<String>,
    /// What was applied of kinds that are not watched.
    unwatched: BTreeMap<(String, String), Value>,
    /// The last event.
    said: Option<(Instant, String)>,
    /// What the last look was at, if it has left nothing to do.
    settled: Option<Basis>,
    /// Whether the snapshot was there, and since when it is not.
    pub snapshot: SnapshotAbsence,
}

/// What a look was at, by version. As long as it is the same another look would say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Basis {
    job: String,
    surroundings: u64,
    things: Versions,
}

/// Of which version each thing is, if it is there.
type Versions = BTreeMap<(Thing, String), Option<String>>;

/// The uids of things that have come and gone, the latest of them: what was made and is among them is not on its way into the
/// caches, however short a time it was there.
#[derive(Debug, Default)]
pub struct Gone {
    uids: HashSet<String>,
    order: VecDeque<String>,
}

/// What was asked for during a look, as it was when it was first asked for.
#[derive(Debug, Default)]
pub struct Asked(RefCell<Versions>);

/// What one job sees.
pub struct View<'a> {
    /// The caches.
    pub sources: &'a Sources,
    /// What was just written.
    pub kept: &'a Kept,
    /// Its namespace.
    pub namespace: &'a str,
    /// What it has asked for.
    pub asked: &'a Asked,
}

// === impl Kept ===

impl Kept {
    /// Forgets what the caches have, and what has been believed for too long.
    pub fn tidy(&mut self, sources: &Sources, key: &Key, now: Instant) {
        let old = |at: &Instant| now.duration_since(*at) >= BELIEVED;
        self.made.retain(|(thing, name), (at, object)| {
            let version = sources.version(*thing, &key.namespace, name);
            !old(at) && version.is_none_or(|version| is_newer(version_of(object), &version))
        });
        let job = sources.jobs.named(&key.namespace, &key.name);
        let version = job.and_then(|job| job.metadata.resource_version.clone());
        self.job.take_if(|(at, object)| {
            old(at) || version.is_none_or(|version| !is_newer(version_of(object), &version))
        });
    }

    /// Forgets what was made and is gone again.
    pub fn forget(&mut self, gone: &Gone) {
        self.made.retain(|_, (_, object)| !gone.has(object));
    }

    /// Whether anything that was made is gone again.
    pub fn has_lost(&self, gone: &Gone) -> bool {
        self.made.values().any(|(_, object)| gone.has(object))
    }

    /// What was made and is not in the caches yet: kinds and names.
    pub fn awaited(&self) -> impl Iterator<Item = (Thing, String)> {
        self.made.keys().cloned()
    }

    /// Whether something is not in the caches yet.
    pub fn waits(&self) -> bool {
        !self.made.is_empty() || self.job.is_some()
    }

    /// Whether nothing that the last look was at has changed since, but for what it wrote itself.
    pub fn is_settled(&self, sources: &Sources, key: &Key, surroundings: u64) -> bool {
        let Some(settled) = &self.settled else { return false };
        let Some(cached) = sources.jobs.named(&key.namespace, &key.name) else { return false };
        let job = match &self.job {
            Some((_, object)) => Some(version_of(object)),
            None => cached.metadata.resource_version.as_deref(),
        };
        let same = |(at, version): (&(Thing, String), &Option<String>)| {
            self.version(sources, &key.namespace, at) == *version
        };
        settled.surroundings == surroundings
            && job == Some(&settled.job)
            && settled.things.iter().all(same)
    }

    /// A look at this version of the job has left nothing to do until something changes of what it has asked for.
    pub fn settle(&mut self, job: Option<String>, surroundings: u64, asked: Asked) {
        let mut things = asked.0.into_inner();
        // What it has written is as it shall be.
        for (at, (_, object)) in &self.made {
            things.insert(at.clone(), Some(version_of(object).to_owned()));
        }
        let written = self.job.as_ref().map(|(_, object)| version_of(object).to_owned());
        let basis = |job| Basis { job, surroundings, things };
        self.settled = written.or(job).map(basis);
    }

    /// There is something to do.
    pub fn unsettle(&mut self) {
        self.settled = None;
    }

    fn version(&self, sources: &Sources, namespace: &str, at: &(Thing, String)) -> Option<String> {
        match self.made.get(at) {
            Some((_, object)) => Some(version_of(object).to_owned()),
            None => sources.version(at.0, namespace, &at.1),
        }
    }

    /// The job, as it is now.
    pub fn job(&self, sources: &Sources, key: &Key) -> Option<Value> {
        let cached = sources.jobs.named(&key.namespace, &key.name)?;
        match &self.job {
            Some((_, object)) if object["metadata"]["uid"] == *cached.metadata.uid.as_ref()? => {
                Some(object.clone())
            }
            _ => Some(cached.object()),
        }
    }

    /// The API server's answer to an apply.
    pub fn applied(&mut self, wanted: &Value, answer: Value, now: Instant) {
        let (api_version, kind, name) = identity(wanted);
        match Thing::of(api_version, kind) {
            Some(thing) => {
                self.made.insert((thing, name.to_owned()), (now, answer));
            }
            None => {
                let key = (format!("{api_version}/{kind}"), name.to_owned());
                self.unwatched.insert(key, wanted.clone());
            }
        }
    }

    /// The API server's answer to a patch of the status.
    pub fn patched(&mut self, job: Value, now: Instant) {
        self.job = Some((now, job));
    }

    /// The JobSet of this uid was deleted.
    pub fn deleted(&mut self, name: &str, uid: Option<String>) {
        self.made.remove(&(Thing::JobSet, name.to_owned()));
        self.deleted = uid;
    }

    /// Whether the JobSet of this uid was deleted.
    pub fn is_deleted(&self, uid: Option<&str>) -> bool {
        uid.is_some() && self.deleted.as_deref() == uid
    }

    /// Whether an event is worth saying.
    pub fn is_news(&mut self, note: &str, now: Instant) -> bool {
        let known = |(at, said): &(Instant, String)| said == note && now.duration_since(*at) < SAID;
        if self.said.as_ref().is_some_and(known) {
            return false;
        }
        self.said = Some((now, note.to_owned()));
        true
    }
}

// === impl Gone ===

impl Gone {
    /// This one is gone.
    pub fn note(&mut self, uid: String) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > MOST_GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    fn has(&self, object: &Value) -> bool {
        object["metadata"]["uid"].as_str().is_some_and(|uid| self.uids.contains(uid))
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

fn version_of(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

// === impl View ===

impl View<'_> {
    /// Whether applying an object would change nothing.
    pub fn has(&self, wanted: &Value) -> bool {
        let (api_version, kind, name) = identity(wanted);
        match Thing::of(api_version, kind) {
            Some(thing) => {
                let live = self.live(thing, name);
                live.is_some_and(|live| {
                    same::is_applied(wanted, &live, muster_api::names::FIELD_MANAGER)
                })
            }
            None => {
                let key = (format!("{api_version}/{kind}"), name.to_owned());
                self.kept.unwatched.get(&key) == Some(wanted)
            }
        }
    }

    /// Something counts for what is decided.
    pub fn ask(&self, thing: Thing, name: &str) {
        let at = (thing, name.to_owned());
        let version = || self.kept.version(self.sources, self.namespace, &at);
        let mut asked = self.asked.0.borrow_mut();
        if !asked.contains_key(&at) {
            asked.insert(at.clone(), version());
        }
    }

    fn made(&self, thing: Thing, name: &str) -> Option<&Value> {
        self.ask(thing, name);
        self.kept.made.get(&(thing, name.to_owned())).map(|(_, object)| object)
    }

    fn live(&self, thing: Thing, name: &str) -> Option<Value> {
        let made = self.made(thing, name).cloned();
        made.or_else(|| self.sources.live(thing, self.namespace, name))
    }
}

impl Cluster for View<'_> {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        self.sources.runtime(kind, namespace, name)
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        match self.made(Thing::ConfigMap, name) {
            Some(made) => Some(Snapshot::read(made)),
            None => self.sources.snapshot(namespace, name),
        }
    }

    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>> {
        match self.made(Thing::JobSet, name) {
            Some(made) => read_job_set(made.clone()),
            None => self.sources.job_set(namespace, name),
        }
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let made = |thing| self.made(thing, name).is_some();
        Thing::of(api_version, kind).is_some_and(made)
            || self.sources.exists(api_version, kind, namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        self.ask(Thing::Secret, name);
        self.sources.secret(namespace, name)
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.sources.table_template(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(uid: &str) -> Kept {
        let mut kept = Kept::default();
        let wanted = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "a"}});
        let mut answer = wanted.clone();
        answer["metadata"]["uid"] = json!(uid);
        kept.applied(&wanted, answer, Instant::now());
        kept
    }

    #[test]
    fn what_was_made_and_is_gone_again_is_not_believed_to_exist() {
        let (mut kept, mut gone) = (made("u1"), Gone::default());
        gone.note("u0".to_owned());
        kept.forget(&gone);
        assert!(kept.waits() && !kept.has_lost(&gone), "another of that name is gone");
        gone.note("u1".to_owned());
        assert!(kept.has_lost(&gone));
        kept.forget(&gone);
        assert!(!kept.waits());
    }

    #[test]
    fn of_many_that_are_gone_the_latest_are_remembered() {
        let mut gone = Gone::default();
        for number in 0..=MOST_GONE {
            gone.note(format!("u{number}"));
            gone.note(format!("u{number}"));
        }
        assert!(!made("u0").has_lost(&gone) && made("u1").has_lost(&gone));
        assert_eq!((gone.uids.len(), gone.order.len()), (MOST_GONE, MOST_GONE));
    }
}
