//! Pods and services of jobs, by job, with what was just made and without what was just deleted.
//!
//! What we have written is in here before the watch tells of it. Until it does, that the watch lacks what was made, or
//! still has what was deleted, says nothing; after `DOUBT` the watch is believed, and what it has is taken.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use muster_dijob::api;
use muster_dijob::names::label;
use muster_dijob::operator::ServiceSeen;
use muster_dijob::pod::Pod;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Key;
use super::kinds::JobPod;
use crate::watch::is_newer;
use crate::watch::{Missed, Watch, drain, heard};

/// What we have written should be seen after this long.
const DOUBT: Duration = Duration::from_secs(30);

/// How often it is looked for what has become doubtful.
const DOUBTS: Duration = Duration::from_secs(5);

/// A pod that was deleted by us is remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Names that are remembered at most.
const MOST_NAMES: usize = 100_000;

/// Changes that a slow listener may miss before it must look at everything again.
const FEED: usize = 16 * 1024;

/// Pods and services of jobs. Copies share them.
#[derive(Clone)]
pub struct Cache {
    pods: Watch<JobPod>,
    services: Watch<Service>,
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<Key>,
    ready: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<Key, BTreeMap<String, Arc<Pod>>>,
    services: BTreeMap<Key, BTreeMap<String, ServiceSeen>>,
    /// The job of each pod and of each service, by place.
    jobs: HashMap<Key, String>,
    service_jobs: HashMap<Key, String>,
    /// Made by us, and not yet seen.
    fresh: HashMap<Key, Instant>,
    /// Deleted by us: the uid.
    gone: HashMap<Key, (String, Instant)>,
    /// Deleted by us, and perhaps still seen.
    hidden: HashMap<Key, Instant>,
}

#[derive(Debug)]
enum Change {
    Pod(Key),
    Service(Key),
    All,
}

impl Missed for Change {
    fn missed() -> Self {
        Self::All
    }
}

// === impl Cache ===

impl Cache {
    /// Of what these see.
    pub fn new(pods: Watch<JobPod>, services: Watch<Service>) -> Self {
        let changes = broadcast::channel(FEED).0;
        Self { pods, services, state: Arc::default(), changes, ready: watch::Sender::new(false) }
    }

    /// Follows the watches until stopped.
    pub async fn run(self, stop: CancellationToken) {
        let (mut pods, mut services) = (self.pods.subscribe(), self.services.subscribe());
        tokio::select! {
            () = stop.cancelled() => return,
            () = async { tokio::join!(self.pods.ready(), self.services.ready()); } => {}
        }
        self.take(&Change::All);
        self.ready.send_replace(true);
        let mut doubts = tokio::time::interval(DOUBTS);
        loop {
            let change = tokio::select! {
                () = stop.cancelled() => return,
                _ = doubts.tick() => {
                    self.believe();
                    continue;
                }
                change = pods.recv() => heard(change, |one| Change::Pod(place(one))),
                change = services.recv() => heard(change, |one| Change::Service(place(one))),
            };
            let Some(change) = change else { return };
            let mut more = vec![change];
            drain(&mut pods, &mut more, |one| Change::Pod(place(one)));
            drain(&mut services, &mut more, |one| Change::Service(place(one)));
            more.iter().for_each(|change| self.take(change));
        }
    }

    /// Returns when all has been seen once.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        let _ended = ready.wait_for(|ready| *ready).await;
    }

    /// Whether all has been seen once.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Hears of jobs whose pods or services have changed.
    pub fn subscribe(&self) -> broadcast::Receiver<Key> {
        self.changes.subscribe()
    }

    /// Takes what the watch has of all that was not seen in time: no change of it may come any more.
    fn believe(&self) {
        let doubtful = self.state.lock().doubtful();
        doubtful.into_iter().for_each(|place| self.take(&Change::Pod(place)));
    }

    fn take(&self, change: &Change) {
        let mut changed = Vec::new();
        match change {
            Change::Pod(place) => {
                let seen = self.pods.named(&place.0, &place.1);
                changed.extend(self.state.lock().pod(place, seen.map(|pod| pod.0.clone())));
            }
            Change::Service(place) => {
                let seen = self.services.named(&place.0, &place.1);
                changed.extend(self.state.lock().service(place, seen.as_deref()));
            }
            Change::All => {
                let (pods, services) = (self.pods.all(), self.services.all());
                let mut state = self.state.lock();
                let known: Vec<Key> = state.jobs.keys().cloned().collect();
                let seen: HashMap<Key, &JobPod> =
                    pods.iter().map(|pod| (place_of(pod.meta()), &**pod)).collect();
                for place in known.iter().chain(seen.keys()) {
                    let pod = seen.get(place).map(|pod| pod.0.clone());
                    changed.extend(state.pod(place, pod));
                }
                let known: Vec<Key> = state.service_jobs.keys().cloned().collect();
                let seen: HashMap<Key, &Service> =
                    services.iter().map(|one| (place_of(one.meta()), &**one)).collect();
                for place in known.iter().chain(seen.keys()) {
                    changed.extend(state.service(place, seen.get(place).copied()));
                }
            }
        }
        for key in changed {
            // Nobody may listen.
            let _ = self.changes.send(key);
        }
    }

    /// We have made this pod, and the API server answers with it.
    pub fn made(&self, pod: Pod) {
        let key = self.state.lock().made(pod);
        let _ = self.changes.send(key);
    }

    /// We have deleted this pod.
    pub fn deleted(&self, namespace: &str, name: &str, uid: &str) {
        let place = (namespace.to_owned(), name.to_owned());
        let key = self.state.lock().deleted(place, uid);
        if let Some(key) = key {
            let _ = self.changes.send(key);
        }
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let place = (namespace.to_owned(), name.to_owned());
        let state = self.state.lock();
        let job = state.jobs.get(&place)?.clone();
        state.pods.get(&(place.0, job))?.get(name).cloned()
    }

    /// The pods that carry the name of a job, by name.
    pub fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        let key = (namespace.to_owned(), job.to_owned());
        self.state.lock().pods.get(&key).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// All pods of a namespace, or of all.
    pub fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        let state = self.state.lock();
        let wanted = |(key, _): &(&Key, _)| namespace.is_none_or(|namespace| key.0 == namespace);
        let pods = state.pods.iter().filter(wanted).flat_map(|(_, pods)| pods.values());
        pods.cloned().collect()
    }

    /// The services that carry the name of a job, by name.
    pub fn services_of(&self, namespace: &str, job: &str) -> Vec<ServiceSeen> {
        let key = (namespace.to_owned(), job.to_owned());
        let state = self.state.lock();
        state.services.get(&key).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Whether we have deleted a pod of this name lately.
    pub fn was_deleted(&self, namespace: &str, name: &str) -> bool {
        let place = (namespace.to_owned(), name.to_owned());
        let state = self.state.lock();
        state.gone.get(&place).is_some_and(|(_, since)| since.elapsed() < REMEMBERED)
    }
}

// === impl State ===

impl State {
    /// What the watch has of a pod now; the jobs that this concerns.
    fn pod(&mut self, place: &Key, seen: Option<Pod>) -> Vec<Key> {
        let Some(seen) = seen else {
            if self.fresh.get(place).is_some_and(|since| since.elapsed() < DOUBT) {
                return Vec::new();
            }
            self.fresh.remove(place);
            return self.forget(place).into_iter().collect();
        };
        if let Some((uid, since)) = self.gone.get(place)
            && uid == seen.uid()
            && since.elapsed() < DOUBT
        {
            return Vec::new();
        }
        let version = |pod: &Pod| pod.metadata.resource_version.clone().unwrap_or_default();
        if let Some(known) = self.known(place) {
            let (known, now) = (version(known), version(&seen));
            if !is_newer(&now, &known) {
                if known == now {
                    self.fresh.remove(place);
                }
                return Vec::new();
            }
        }
        self.fresh.remove(place);
        self.insert(place.clone(), seen)
    }

    /// Places of pods that the watch should have told of by now.
    fn doubtful(&mut self) -> Vec<Key> {
        let late = |since: &Instant| since.elapsed() >= DOUBT;
        let fresh = self.fresh.iter().filter(|(_, since)| late(since));
        let hidden = self.hidden.iter().filter(|(_, since)| late(since));
        let places: Vec<Key> = fresh.chain(hidden).map(|(place, _)| place.clone()).collect();
        self.hidden.retain(|_, since| !late(since));
        places
    }

    fn known(&self, place: &Key) -> Option<&Arc<Pod>> {
        let job = self.jobs.get(place)?;
        self.pods.get(&(place.0.clone(), job.clone()))?.get(&place.1)
    }

    fn insert(&mut self, place: Key, pod: Pod) -> Vec<Key> {
        let job = pod.label(label::JOB).to_owned();
        let before = if self.jobs.get(&place) == Some(&job) { None } else { self.forget(&place) };
        let key = (place.0.clone(), job.clone());
        self.pods.entry(key.clone()).or_default().insert(place.1.clone(), Arc::new(pod));
        self.jobs.insert(place, job);
        before.into_iter().chain([key]).collect()
    }

    fn forget(&mut self, place: &Key) -> Option<Key> {
        let key = (place.0.clone(), self.jobs.remove(place)?);
        if let Some(pods) = self.pods.get_mut(&key) {
            pods.remove(&place.1);
            if pods.is_empty() {
                self.pods.remove(&key);
            }
        }
        Some(key)
    }

    fn made(&mut self, pod: Pod) -> Key {
        let place = (pod.namespace().to_owned(), pod.name().to_owned());
        let key = (place.0.clone(), pod.label(label::JOB).to_owned());
        let version = |pod: &Pod| pod.metadata.resource_version.clone().unwrap_or_default();
        match self.gone.get(&place) {
            // It is on its way out, as we wanted.
            Some((uid, _)) if uid == pod.uid() => return key,
            // Another one has its name.
            Some(_) => drop(self.gone.remove(&place)),
            None => {}
        }
        let newer =
            self.known(&place).is_none_or(|known| is_newer(&version(&pod), &version(known)));
        if newer {
            self.fresh.insert(place.clone(), Instant::now());
            self.insert(place, pod);
        }
        key
    }

    fn deleted(&mut self, place: Key, uid: &str) -> Option<Key> {
        if self.gone.len() >= MOST_NAMES {
            self.gone.retain(|_, (_, since)| since.elapsed() < DOUBT);
        }
        self.gone.insert(place.clone(), (uid.to_owned(), Instant::now()));
        self.hidden.insert(place.clone(), Instant::now());
        let same = self.known(&place).is_some_and(|known| known.uid() == uid);
        self.fresh.remove(&place);
        if same { self.forget(&place) } else { None }
    }

    fn service(&mut self, place: &Key, seen: Option<&Service>) -> Vec<Key> {
        let now = seen.and_then(|seen| {
            let job = seen.metadata.labels.as_ref()?.get(label::JOB)?.clone();
            let owners = seen.metadata.owner_references.iter().flatten();
            let owner = owners.into_iter().find(|owner| owner.kind == api::KIND);
            let service = ServiceSeen {
                name: place.1.clone(),
                uid: seen.metadata.uid.clone().unwrap_or_default(),
                job: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
                terminating: seen.metadata.deletion_timestamp.is_some(),
            };
            Some((job, service))
        });
        let before = self.service_jobs.remove(place).map(|job| (place.0.clone(), job));
        if let Some(key) = &before
            && let Some(services) = self.services.get_mut(key)
        {
            services.remove(&place.1);
            if services.is_empty() {
                self.services.remove(key);
            }
        }
        let after = now.map(|(job, service)| {
            let key = (place.0.clone(), job.clone());
            self.services.entry(key.clone()).or_default().insert(place.1.clone(), service);
            self.service_jobs.insert(place.clone(), job);
            key
        });
        before.into_iter().chain(after).collect()
    }
}

fn place<K: Resource>(object: ObjectRef<K>) -> Key {
    (object.namespace.unwrap_or_default(), object.name)
}

fn place_of(metadata: &kube::core::ObjectMeta) -> Key {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (part(&metadata.namespace), part(&metadata.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str, version: &str) -> Pod {
        let metadata = json!({"name": name, "namespace": "rl", "uid": uid, "resourceVersion": version,
            "labels": {label::JOB: "cartpole"}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn at(name: &str) -> Key {
        ("rl".to_owned(), name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_made_stays_though_the_watch_lacks_it_for_a_while() {
        let mut state = State::default();
        state.made(pod("a", "1", "5"));
        assert!(state.pod(&at("a"), None).is_empty(), "the watch is not that far");
        assert!(state.known(&at("a")).is_some());
        assert!(state.pod(&at("a"), Some(pod("a", "1", "5"))).is_empty(), "that is the one");
        assert_eq!(state.pod(&at("a"), None), [at("cartpole")], "now it is gone");
        state.made(pod("b", "2", "6"));
        tokio::time::advance(DOUBT).await;
        assert_eq!(state.pod(&at("b"), None), [at("cartpole")], "it should have been seen");
        assert!(state.pods.is_empty() && state.jobs.is_empty() && state.fresh.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_deleted_does_not_come_back_but_another_of_its_name_does() {
        let mut state = State::default();
        state.pod(&at("a"), Some(pod("a", "1", "5")));
        assert_eq!(state.deleted(at("a"), "1"), Some(at("cartpole")));
        assert!(state.pod(&at("a"), Some(pod("a", "1", "6"))).is_empty());
        assert!(state.known(&at("a")).is_none());
        state.pod(&at("a"), Some(pod("a", "2", "7")));
        assert_eq!(state.known(&at("a")).map(|pod| pod.uid().to_owned()), Some("2".to_owned()));
        assert_eq!(state.deleted(at("a"), "1"), None, "it is another one");
        assert!(state.known(&at("a")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_watch_never_tells_of_is_looked_at_again() {
        let client = kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody"))
            }),
            "rl",
        );
        let config = || kube::runtime::watcher::Config::default();
        let api = kube::Api::all(client.clone());
        let (pods, _pods) = crate::watch::watch::<JobPod>(api, config(), |_| {});
        let api = kube::Api::all(client);
        let (services, _services) = crate::watch::watch::<Service>(api, config(), |_| {});
        let cache = Cache::new(pods, services);
        // The watch has told of its beginning and of its end before we heard that it was made.
        cache.made(pod("a", "1", "5"));
        cache.believe();
        assert!(cache.pod("rl", "a").is_some(), "the watch may be late");
        let mut changes = cache.subscribe();
        tokio::time::advance(DOUBT).await;
        cache.believe();
        assert!(cache.pod("rl", "a").is_none());
        assert_eq!(changes.try_recv().unwrap(), at("cartpole"));
    }

    #[tokio::test(start_paused = true)]
    async fn another_pod_under_the_name_of_a_deleted_one_is_known() {
        let mut state = State::default();
        state.made(pod("a", "1", "5"));
        state.deleted(at("a"), "1");
        state.made(pod("a", "1", "6"));
        assert!(state.known(&at("a")).is_none(), "it is on its way out");
        state.made(pod("a", "2", "7"));
        assert!(state.known(&at("a")).is_some() && state.gone.is_empty());
        state.deleted(at("a"), "2");
        tokio::time::advance(DOUBT).await;
        assert_eq!((state.doubtful(), state.doubtful()), (vec![at("a")], vec![]));
    }

    #[test]
    fn an_old_picture_does_not_replace_a_newer_one() {
        let mut state = State::default();
        state.pod(&at("a"), Some(pod("a", "1", "9")));
        state.pod(&at("a"), Some(pod("a", "1", "8")));
        assert_eq!(state.known(&at("a")).unwrap().metadata.resource_version.as_deref(), Some("9"));
    }
}
