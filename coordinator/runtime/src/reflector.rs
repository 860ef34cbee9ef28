//! One reflector per kind: what the API server knows, kept in memory, and who wants to hear of changes.

mod age;
mod health;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

pub use age::{WatchAge, WatchAges};
pub use health::WatchHealth;

/// Changes that a slow listener may miss before it must look at everything again. Room for them is taken at once, so that it is as
/// large as the kind is busy.
const FEED: usize = 4 * 1024;
/// The same for one object alone.
const FEED_OF_ONE: usize = 16;

/// How a selector begins that means one object.
const ONE: &str = "metadata.name=";

/// Changes that are taken at once before anything is looked at.
const BATCH: usize = 4096;

/// The objects of a kind, and their changes. Copies share them.
#[derive(Clone)]
pub struct Watch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    kind: K::DynamicType,
    store: Store<K>,
    changes: broadcast::Sender<ObjectRef<K>>,
    ready: watch::Receiver<bool>,
    age: WatchAge,
}

/// The objects of a kind to come: what runs in a task.
pub struct Reflector<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    kind: K::DynamicType,
    api: Api<K>,
    config: watcher::Config,
    trim: fn(&mut K),
    writer: reflector::store::Writer<K>,
    changes: broadcast::Sender<ObjectRef<K>>,
    ready: watch::Sender<bool>,
    age: WatchAge,
}

/// Objects of a kind. `trim` takes away what nobody needs, to save memory.
pub fn watch<K>(api: Api<K>, config: watcher::Config, trim: fn(&mut K)) -> (Watch<K>, Reflector<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    watch_kind((), api, config, trim)
}

/// The same of a kind that is known by name alone, such as [`crate::any_object::AnyObject`].
pub fn watch_kind<K>(
    kind: K::DynamicType,
    api: Api<K>,
    config: watcher::Config,
    trim: fn(&mut K),
) -> (Watch<K>, Reflector<K>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash + Unpin,
{
    let writer = reflector::store::Writer::new(kind.clone());
    let store = writer.as_reader();
    let one = config.field_selector.as_ref().is_some_and(|fields| fields.starts_with(ONE));
    let changes = broadcast::channel(if one { FEED_OF_ONE } else { FEED }).0;
    let (ready, seen) = watch::channel(false);
    let age = WatchAge::default();
    let (own, told) = (age.clone(), changes.clone());
    let watch = Watch { kind: kind.clone(), store, changes: told, ready: seen, age: own };
    (watch, Reflector { kind, api, config, trim, writer, changes, ready, age })
}

// === impl Watch ===

impl<K> Watch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    /// The name of the kind.
    pub fn kind(&self) -> String {
        K::kind(&self.kind).into_owned()
    }

    /// How old what is known of it is.
    pub fn age(&self) -> WatchAge {
        self.age.clone()
    }

    /// Hears of changes. Who is told that it lagged must look at everything again.
    pub fn subscribe(&self) -> broadcast::Receiver<ObjectRef<K>> {
        self.changes.subscribe()
    }

    /// Returns when all objects have been seen once.
    pub async fn ready(&self) {
        // An error means that the program ends.
        let mut ready = self.ready.clone();
        let _ended = ready.wait_for(|ready| *ready).await;
    }

    /// Whether all objects have been seen once.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// One object.
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        self.store.get(key)
    }

    /// One object, by name.
    pub fn named(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new_with(name, self.kind.clone()).within(namespace))
    }

    /// One object of a kind without namespaces, by name.
    pub fn cluster_wide(&self, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new_with(name, self.kind.clone()))
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }
}

// === impl Reflector ===

impl<K> Reflector<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash + Unpin + Send + Sync,
    ObjectRef<K>: Hash + Eq,
{
    /// The same for a kind that the cluster may not know: as long as it does not, there are no objects, and nobody waits
    /// for them.
    pub async fn run_once_defined(self, definition: Watch<Definition>, stop: CancellationToken) {
        self.run_once(definition, |_| true, stop).await;
    }

    /// The same, where the cluster may know the kind in another version alone.
    pub async fn run_once_served(
        self,
        definition: Watch<Definition>,
        version: &'static str,
        stop: CancellationToken,
    ) {
        let serves = move |definition: &Definition| {
            let mut versions = definition.spec.versions.iter();
            let served = versions.any(|known| known.name == version && known.served);
            if !served {
                let name = definition.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(
                    name,
                    version,
                    reason = "version",
                    "the cluster has this kind in another version: objects of ours cannot be"
                );
            }
            served
        };
        self.run_once(definition, serves, stop).await;
    }

    async fn run_once(
        self,
        definition: Watch<Definition>,
        is_it: impl Fn(&Definition) -> bool,
        stop: CancellationToken,
    ) {
        let mut changes = definition.subscribe();
        let defined = async {
            definition.ready().await;
            while !definition.all().iter().any(|known| is_it(known)) {
                self.ready.send_replace(true);
                // Whatever was missed, the next look sees it.
                let _heard = changes.recv().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = defined => {}
        }
        self.run(stop).await;
    }
}

impl<K> Reflector<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash + Unpin + Send + Sync,
    ObjectRef<K>: Hash + Eq,
{
    /// Follows the API server until it is stopped. Errors are retried, slower and slower.
    pub async fn run(self, stop: CancellationToken) {
        let Self { kind, api, config, trim, writer, changes, ready, age } = self;
        let stream = watcher(api, config).default_backoff().modify(trim).reflect(writer);
        let mut stream = std::pin::pin!(stream);
        // What a new listing no longer has, is gone: who listens must hear of that too.
        let mut listed: Option<Vec<ObjectRef<K>>> = None;
        let mut known = std::collections::HashSet::new();
        let mut health = WatchHealth::of(K::kind(&kind));
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = stream.next() => event,
            };
            let tell = |object: ObjectRef<K>| {
                // Nobody may listen.
                let _ = changes.send(object);
            };
            if let Some(event) = &event {
                health.observe(event, Instant::now());
                match event {
                    Ok(watcher::Event::Init) => {}
                    Ok(_) => age.heard(Instant::now()),
                    Err(_) => age.failed(Instant::now()),
                }
            }
            match event {
                Some(Ok(watcher::Event::Init)) => listed = Some(Vec::new()),
                Some(Ok(watcher::Event::InitApply(object))) => {
                    if let Some(listed) = &mut listed {
                        listed.push(ObjectRef::from_obj_with(&object, kind.clone()));
                    }
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    let now: std::collections::HashSet<_> =
                        listed.take().unwrap_or_default().into_iter().collect();
                    known.difference(&now).cloned().for_each(tell);
                    now.iter().cloned().for_each(tell);
                    known = now;
                    ready.send_replace(true);
                }
                Some(Ok(watcher::Event::Apply(object))) => {
                    let object = ObjectRef::from_obj_with(&object, kind.clone());
                    known.insert(object.clone());
                    tell(object);
                }
                Some(Ok(watcher::Event::Delete(object))) => {
                    let object = ObjectRef::from_obj_with(&object, kind.clone());
                    known.remove(&object);
                    tell(object);
                }
                Some(Err(_)) => {}
                None => return,
            }
        }
    }
}

/// A change that stands for all that was missed.
pub trait Missed {
    /// It.
    fn missed() -> Self;
}

/// What a receiver says, as a change; none when its source has ended.
pub fn heard<T, C: Missed>(said: Result<T, RecvError>, as_change: impl Fn(T) -> C) -> Option<C> {
    match said {
        Ok(change) => Some(as_change(change)),
        Err(RecvError::Lagged(_)) => Some(C::missed()),
        Err(RecvError::Closed) => None,
    }
}

/// What has come in the meantime: many small changes are looked at together.
pub fn drain<T: Clone, C: Missed>(
    from: &mut broadcast::Receiver<T>,
    changes: &mut Vec<C>,
    as_change: impl Fn(T) -> C,
) {
    for _ in 0..BATCH {
        match from.try_recv() {
            Ok(change) => changes.push(as_change(change)),
            Err(TryRecvError::Lagged(_)) => changes.push(C::missed()),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

/// Whether one version of an object is newer than another. They are numbers; what is none is always new.
pub fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => version != than,
    }
}
