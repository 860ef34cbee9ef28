//! All TrainJobs, and who is to hear of what.

use std::collections::{HashMap, HashSet};

use kube::ResourceExt as _;
use muster_api::TrainJob;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::in_use;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::{Change, Feed};
use super::kinds::{Job, Thing, Written as _, controller};
use super::pass::{Looked, Looker};
use super::queue::{Next, Queue};
use super::view::{Gone, Kept};
use super::{Key, Outlets, Sources};

/// TrainJobs that are looked at, and written for, at once.
const MOST: usize = 64;

/// All TrainJobs.
struct Desk {
    sources: Sources,
    outlets: Outlets,
    queue: Queue<Key, Kept>,
    tasks: JoinSet<Looked>,
    /// Whose each task is.
    keys: HashMap<tokio::task::Id, Key>,
    /// The job of each thing, by its place: of those that the caches have, and of those that were just made.
    owners: HashMap<(Thing, String, String), String>,
    /// Things that have come and gone.
    gone: Gone,
    /// How often anything has changed that is no job's.
    surroundings: u64,
}

/// Looks after all TrainJobs until it is stopped, or until this coordinator does not lead any more.
pub async fn run(sources: Sources, outlets: Outlets, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.ready() => {}
    }
    let mut feed = Feed::new(&sources);
    let term = stop.child_token();
    let speaking = tokio::spawn(outlets.voice.clone().run(term.clone()));
    let mut desk = Desk {
        sources,
        outlets,
        queue: Queue::default(),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
        owners: HashMap::new(),
        gone: Gone::default(),
        surroundings: 0,
    };
    desk.everything();
    loop {
        desk.begin();
        tokio::select! {
            () = stop.cancelled() => break,
            change = feed.next() => match change {
                Some(change) => desk.take(change),
                None => break,
            },
            Some(ended) = desk.tasks.join_next_with_id() => {
                let may_write = match ended {
                    Ok((id, looked)) => desk.ended(id, looked),
                    Err(error) => desk.died(error.id()),
                };
                if !may_write {
                    break;
                }
            },
            () = sleep_until(desk.queue.due()) => desk.queue.promote(Instant::now()),
        }
        for change in feed.more() {
            desk.take(change);
        }
    }
    // Whatever is being written ends before another begins.
    while desk.tasks.join_next().await.is_some() {}
    term.cancel();
    let _said = speaking.await;
    desk.outlets.metrics.jobs.set(0);
    desk.outlets.shown.clear();
}

// === impl Desk ===

impl Desk {
    /// Begins as many looks as there is room for.
    fn begin(&mut self) {
        while self.tasks.len() < MOST
            && let Some((key, mut kept)) = self.queue.take()
        {
            kept.forget(&self.gone);
            let (sources, outlets) = (self.sources.clone(), self.outlets.clone());
            let surroundings = self.surroundings;
            let looker = Looker { sources, outlets, key: key.clone(), surroundings };
            let task = self.tasks.spawn(looker.look(kept));
            self.keys.insert(task.id(), key);
        }
    }

    /// A look has ended. Whether we may still write.
    fn ended(&mut self, id: tokio::task::Id, looked: Looked) -> bool {
        let Some(key) = self.keys.remove(&id) else { return true };
        let Looked { kept, next } = looked;
        let Some(next) = next else { return false };
        if next == Next::Gone {
            self.outlets.shown.remove(&key);
        }
        // What was made may be gone again before anybody has seen it: then its job is looked at once more, now or when
        // the watch says so.
        let lost = kept.has_lost(&self.gone);
        for (thing, name) in kept.awaited() {
            self.owners.insert((thing, key.namespace.clone(), name), key.name.clone());
        }
        self.queue.put_back(&key, kept, next, Instant::now());
        if lost {
            self.queue.poke(&key);
        }
        self.count();
        true
    }

    /// A look has died: one bad object must not stop the others, nor take all our time.
    fn died(&mut self, id: tokio::task::Id) -> bool {
        let Some(key) = self.keys.remove(&id) else { return true };
        tracing::error!(job = %key, reason = "internal", "a look at a TrainJob has ended unexpectedly");
        self.outlets.metrics.failed("internal");
        self.queue.broken(&key, Instant::now());
        true
    }

    fn count(&self) {
        let count = i64::try_from(self.queue.len()).unwrap_or(i64::MAX);
        self.outlets.metrics.jobs.set(count);
    }

    fn take(&mut self, change: Change) {
        if !matches!(change, Change::Job(_) | Change::Thing(..)) {
            self.surroundings += 1;
        }
        match change {
            Change::Job(key) => self.queue.poke(&key),
            Change::Thing(Thing::Secret, namespace, name, _)
                if self.is_trusted(&namespace, &name) =>
            {
                self.surroundings += 1;
                self.everything();
            }
            Change::Thing(thing, namespace, name, uid) => {
                if let Some(uid) = uid
                    && self.sources.metadata(thing, &namespace, &name).is_none()
                {
                    self.gone.note(uid);
                }
                self.thing(thing, namespace, name);
            }
            Change::LimitRange(namespace) => {
                self.suspended(|job| job.metadata.namespace.as_deref() == Some(&namespace));
            }
            Change::RuntimeClass(name) => {
                let sources = self.sources.clone();
                self.suspended(|job| runs_with(&sources, job, &name));
            }
            Change::Surroundings => self.queue.poke_failed(),
            Change::All => self.everything(),
        }
    }

    /// Whether a Secret has the certificates that trainers get who report their progress.
    fn is_trusted(&self, namespace: &str, name: &str) -> bool {
        let settings = &self.outlets.rules.settings;
        settings.train_job_status
            && settings.namespace == namespace
            && settings.status_secret == name
    }

    /// Something was missed.
    fn everything(&mut self) {
        let sources = self.sources.clone();
        let mut things: HashSet<(Thing, String, String)> = self.owners.keys().cloned().collect();
        macro_rules! add {
            ($thing:expr, $watch:ident) => {
                things.extend(
                    sources
                        .$watch
                        .all()
                        .iter()
                        .map(|it| ($thing, it.namespace().unwrap_or_default(), it.name_any())),
                );
            };
        }
        add!(Thing::ConfigMap, config_maps);
        add!(Thing::Secret, secrets);
        add!(Thing::JobSet, job_sets);
        add!(Thing::Coscheduling, coscheduling);
        add!(Thing::Volcano, volcano);
        add!(Thing::Kai, kai);
        for (thing, namespace, name) in things {
            self.thing(thing, namespace, name);
        }
        let mut keys: HashSet<Key> = self.queue.keys().cloned().collect();
        keys.extend(sources.jobs.all().iter().map(|job| key(job)));
        keys.iter().for_each(|key| self.queue.poke(key));
    }

    /// Something has come, changed or gone: its job is to be looked at, and the one that it had before.
    fn thing(&mut self, thing: Thing, namespace: String, name: String) {
        let metadata = self.sources.metadata(thing, &namespace, &name);
        let now = metadata.as_ref().and_then(controller).map(|owner| owner.name.clone());
        let at = (thing, namespace.clone(), name);
        let before = match &now {
            Some(job) => self.owners.insert(at, job.clone()),
            None => self.owners.remove(&at),
        };
        let jobs: HashSet<String> = before.into_iter().chain(now).collect();
        for name in jobs {
            let key = Key { namespace: namespace.clone(), name };
            if self.sources.jobs.named(&key.namespace, &key.name).is_some() {
                self.queue.poke(&key);
            }
        }
    }

    /// Suspended jobs are to be looked at: only of these something may change.
    fn suspended(&mut self, which: impl Fn(&Job) -> bool) {
        let suspended = |job: &Job| {
            job.rest.get("spec").and_then(|spec| spec.get("suspend")) == Some(&Value::Bool(true))
        };
        for job in self.sources.jobs.all() {
            if suspended(&job) && which(&job) {
                self.queue.poke(&key(&job));
            }
        }
    }
}

/// Whether the pods of a job's runtime name a RuntimeClass.
fn runs_with(sources: &Sources, job: &Job, class: &str) -> bool {
    let Ok(job) = serde_json::from_value::<TrainJob>(job.object()) else { return false };
    let Some((kind, _, name)) = in_use::used_by(&job) else { return false };
    let runtime = sources.runtime(kind, job.namespace(), name);
    runtime.is_some_and(|runtime| {
        runtime.jobs.iter().any(|job| {
            job.pointer("/template/spec/template/spec/runtimeClassName")
                .is_some_and(|named| named == class)
        })
    })
}

fn key(job: &Job) -> Key {
    Key { namespace: job.namespace().unwrap_or_default(), name: job.name_any() }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
