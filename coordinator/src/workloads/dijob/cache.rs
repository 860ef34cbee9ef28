//! Pods and services of jobs, by job. The controller and the DI server share it, and both read what either has just written.

mod objects;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt as _};
use muster_dijob::api;
use muster_dijob::names::label;
use muster_dijob::operator::ServiceSeen;
use muster_dijob::pod::Pod;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::kinds::JobPod;
use crate::workloads::{Key, key_of};
use muster_runtime::overlay::ObjectVersion;
use muster_runtime::reflector::{Missed, Watch, drain, heard};
use objects::{Object, Objects};

/// How often the cache looks for writes that the watch should have shown by now.
const LAG_CHECK: Duration = Duration::from_secs(5);

/// Changes that a slow subscriber may miss before it must reconcile all jobs.
const BACKLOG: usize = 16 * 1024;

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
    pods: Objects<Arc<Pod>>,
    services: Objects<ServiceSeen>,
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
    /// Of what these watches show.
    pub fn new(pods: Watch<JobPod>, services: Watch<Service>) -> Self {
        let changes = broadcast::channel(BACKLOG).0;
        Self { pods, services, state: Arc::default(), changes, ready: watch::Sender::new(false) }
    }

    /// Follows the watches until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let (mut pods, mut services) = (self.pods.subscribe(), self.services.subscribe());
        tokio::select! {
            () = stop.cancelled() => return,
            () = async { tokio::join!(self.pods.ready(), self.services.ready()); } => {}
        }
        self.take(&Change::All);
        self.ready.send_replace(true);
        let mut lag_check = tokio::time::interval(LAG_CHECK);
        loop {
            let change = tokio::select! {
                () = stop.cancelled() => return,
                _ = lag_check.tick() => {
                    self.believe_the_watch();
                    continue;
                }
                change = pods.recv() => heard(change, |one| Change::Pod(key(one))),
                change = services.recv() => heard(change, |one| Change::Service(key(one))),
            };
            let Some(change) = change else { return };
            let mut more = vec![change];
            drain(&mut pods, &mut more, |one| Change::Pod(key(one)));
            drain(&mut services, &mut more, |one| Change::Service(key(one)));
            more.iter().for_each(|change| self.take(change));
        }
    }

    /// Returns when all has been listed once.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        let _ended = ready.wait_for(|ready| *ready).await;
    }

    /// Whether all has been listed once.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Jobs whose pods or services change from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Key> {
        self.changes.subscribe()
    }

    /// Takes what the watch has of all that it has not shown in time: no change of it may come any more.
    fn believe_the_watch(&self) {
        let now = Instant::now();
        let late = {
            let state = self.state.lock();
            let pods = state.pods.late(now).into_iter().map(Change::Pod);
            pods.chain(state.services.late(now).into_iter().map(Change::Service)).collect()
        };
        let late: Vec<Change> = late;
        late.iter().for_each(|change| self.take(change));
    }

    fn take(&self, change: &Change) {
        let now = Instant::now();
        let changed = match change {
            Change::Pod(key) => {
                let pod = self.pods.named(&key.namespace, &key.name);
                self.state.lock().pods.watched(key, pod.map(|pod| of_pod(pod.0.clone())), now)
            }
            Change::Service(key) => {
                let service = self.services.named(&key.namespace, &key.name);
                let service = service.and_then(|service| of_service(&service));
                self.state.lock().services.watched(key, service, now)
            }
            Change::All => {
                let (pods, services) = (self.pods.all(), self.services.all());
                let mut state = self.state.lock();
                let pods = pods.iter().map(|pod| (key_of(pod.meta()), of_pod(pod.0.clone())));
                let mut changed = everything(&mut state.pods, pods.collect(), now);
                let services =
                    services.iter().filter_map(|one| Some((key_of(one.meta()), of_service(one)?)));
                changed.extend(everything(&mut state.services, services.collect(), now));
                changed
            }
        };
        self.tell(changed);
    }

    fn tell(&self, jobs: Vec<Key>) {
        for job in jobs {
            // Nobody may listen.
            let _ = self.changes.send(job);
        }
    }

    /// We have made this pod, and the API server answers with it.
    pub fn made(&self, pod: Pod) {
        let key = Key::new(pod.namespace(), pod.name());
        let changed = self.state.lock().pods.made(key, of_pod(pod), Instant::now());
        self.tell(changed);
    }

    /// We have made this service, and the API server answers with it.
    pub fn made_service(&self, service: &Service) {
        if let Some(made) = of_service(service) {
            let changed =
                self.state.lock().services.made(key_of(service.meta()), made, Instant::now());
            self.tell(changed);
        }
    }

    /// We have deleted this pod.
    pub fn deleted(&self, namespace: &str, name: &str, uid: &str) {
        let pod = Key::new(namespace, name);
        let changed = self.state.lock().pods.deleted(pod, uid, Instant::now());
        self.tell(changed);
    }

    /// We have deleted this service.
    pub fn deleted_service(&self, namespace: &str, name: &str, uid: &str) {
        let service = Key::new(namespace, name);
        let changed = self.state.lock().services.deleted(service, uid, Instant::now());
        self.tell(changed);
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.state.lock().pods.get(&Key::new(namespace, name))
    }

    /// The pods that carry the name of a job, by name.
    pub fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        self.state.lock().pods.of_job(&Key::new(namespace, job))
    }

    /// All pods of a namespace, or of all: by job and name.
    pub fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        self.state.lock().pods.all(namespace)
    }

    /// The services that carry the name of a job, by name.
    pub fn services_of(&self, namespace: &str, job: &str) -> Vec<ServiceSeen> {
        self.state.lock().services.of_job(&Key::new(namespace, job))
    }

    /// Whether we have deleted a pod of this name lately.
    pub fn was_deleted(&self, namespace: &str, name: &str) -> bool {
        self.state.lock().pods.was_deleted(&Key::new(namespace, name))
    }
}

/// Changes were missed: all that the watch has is taken, and what it lacks.
fn everything<T: Clone>(
    objects: &mut Objects<T>,
    mut watched: HashMap<Key, Object<T>>,
    now: Instant,
) -> Vec<Key> {
    let keys: HashSet<Key> = objects.keys().into_iter().chain(watched.keys().cloned()).collect();
    keys.iter().flat_map(|key| objects.watched(key, watched.remove(key), now)).collect()
}

fn of_pod(pod: Pod) -> Object<Arc<Pod>> {
    let version = ObjectVersion::from(&pod.metadata);
    Object { version, job: pod.label(label::JOB).to_owned(), kept: Arc::new(pod) }
}

/// None of one without a job.
fn of_service(service: &Service) -> Option<Object<ServiceSeen>> {
    let job = service.labels().get(label::JOB)?.clone();
    let owner = service.owner_references().iter().find(|owner| owner.kind == api::KIND);
    let kept = ServiceSeen {
        name: service.name_any(),
        uid: service.uid().unwrap_or_default(),
        job: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
        terminating: service.metadata.deletion_timestamp.is_some(),
    };
    Some(Object { version: ObjectVersion::from(&service.metadata), job, kept })
}

fn key<K: Resource>(object: ObjectRef<K>) -> Key {
    Key::new(object.namespace.unwrap_or_default(), object.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::objects::CACHE_LAG_MAX;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watch_is_believed_again_of_what_it_never_tells_of() {
        let client = kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody"))
            }),
            "rl",
        );
        let config = || kube::runtime::watcher::Config::default();
        let api = kube::Api::all(client.clone());
        let (pods, _pods) = muster_runtime::reflector::watch::<JobPod>(api, config(), |_| {});
        let api = kube::Api::all(client);
        let (services, _services) =
            muster_runtime::reflector::watch::<Service>(api, config(), |_| {});
        let cache = Cache::new(pods, services);
        // The watch has told of its beginning and of its end before we heard that it was made.
        let pod = json!({"metadata": {"name": "a", "namespace": "rl", "uid": "1",
            "resourceVersion": "5", "labels": {label::JOB: "cartpole"}}});
        cache.made(serde_json::from_value(pod).unwrap());
        cache.believe_the_watch();
        assert!(cache.pod("rl", "a").is_some(), "the watch may be late");
        let mut changes = cache.subscribe();
        tokio::time::advance(CACHE_LAG_MAX).await;
        cache.believe_the_watch();
        assert!(cache.pod("rl", "a").is_none());
        assert_eq!(changes.try_recv().unwrap(), Key::new("rl", "cartpole"));
    }
}
