//! Which ModelServing each change wakes, and one reconcile of it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use muster_modelserving::api;
use muster_modelserving::naming;
use muster_modelserving::shape::Shape;
use muster_modelserving::step::Kind;
use muster_ranktable::inject::Injection;
use muster_runtime::index::OwnerIndex;
use muster_runtime::reconciler::{Context, Reconciler, Requeue};
use muster_runtime::reflector::{Watch, is_newer};
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::{Environment, EventRecorder, ObjectMetrics, ReconcileMetrics};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::serving::{Reconcile, ServingError, ServingState};
use super::{Caches, Key, Metrics, StatusView};
use muster_runtime::events::Events;
use muster_runtime::writer::Writer;

/// Writes that are under way at once, over all ModelServings.
const MAX_WRITES: usize = 64;

/// An object that a ModelServing owns: what it is, its namespace and its name.
type Owned = (Kind, String, String);

/// The namespace and the name of a ModelServing, of whichever shape.
type Owner = (String, String);

/// Reconciles ModelServings of both shapes.
pub struct ModelServings {
    /// What is known of the cluster.
    pub caches: Caches,
    /// What pods of rank groups get injected.
    pub injection: Injection,
    /// What is counted.
    pub metrics: Metrics,
    /// What the status page shows.
    pub view: StatusView,
    /// Told to end: what is left of the steps is left to whoever comes next.
    pub stop: CancellationToken,
    /// A permit for each write.
    pub writes: Semaphore,
    owned: Arc<Mutex<OwnerIndex<Owned, Owner>>>,
    /// Counts changes of templates, and of what the cluster knows: each plans all ModelServings anew.
    surroundings: Arc<AtomicU64>,
}

/// What the controller is made of, but for what it shares with the others.
#[derive(Clone)]
pub struct Parts {
    /// What is known of the cluster.
    pub caches: Caches,
    /// What pods of rank groups get injected.
    pub injection: Injection,
    /// What is counted.
    pub metrics: Metrics,
    /// What the status page shows.
    pub view: StatusView,
}

/// Reconciles all ModelServings until it is stopped, or until this coordinator is not the leader any more.
pub async fn run(
    parts: Parts,
    writer: Writer,
    events: Events,
    reconciles: ReconcileMetrics,
    stop: CancellationToken,
) {
    let recorder = EventRecorder::new(events, parts.metrics.objects.dropped_events());
    let context = Context::new(writer, recorder, Environment::system());
    let view = parts.view.clone();
    let controller = Arc::new(ModelServings::new(parts, stop.clone()));
    muster_runtime::controller::run(controller, context, reconciles, stop).await;
    view.clear();
}

// === impl ModelServings ===

impl ModelServings {
    fn new(Parts { caches, injection, metrics, view }: Parts, stop: CancellationToken) -> Self {
        let (writes, owned) = (Semaphore::new(MAX_WRITES), Arc::default());
        Self { caches, injection, metrics, view, stop, writes, owned, surroundings: Arc::default() }
    }

    /// The objects that carry the name of this ModelServing, as the watches have shown them so far.
    pub fn owned(&self, key: &Key) -> Vec<(Kind, String)> {
        let (index, owner) = (self.owned.lock(), (key.namespace.clone(), key.name.clone()));
        let owned = index.owned(&owner);
        owned.map(|(kind, _, name)| (*kind, name.clone())).collect()
    }

    /// Which of their states the surroundings are in.
    pub fn surroundings(&self) -> u64 {
        self.surroundings.load(Ordering::Relaxed)
    }

    fn watch_servings<K>(watch: &Watch<K>, shape: Shape) -> WatchSource<Key>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        WatchSource::objects(watch, move |object| {
            let (namespace, name) = place(object);
            Wake::key(Key { shape, namespace, name })
        })
    }

    /// A change of an owned object wakes the ModelServing whose name it carries, and the one whose name it carried before.
    fn watch_owned<K>(&self, watch: &Watch<K>, kind: Kind) -> WatchSource<Key>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        let (caches, index, objects) = (self.caches.clone(), self.owned.clone(), watch.clone());
        WatchSource::objects(watch, move |object| {
            let owner = objects.get(&object).and_then(|object| owner(&*object));
            let (namespace, name) = place(object);
            let owners = index.lock().set((kind, namespace, name), owner);
            Wake::keys(owners.into_iter().flat_map(|owner| caches.keys_of(&owner.0, &owner.1)))
        })
    }

    /// A record of a rank table wakes its owner, which says how its tables are.
    fn watch_records(&self) -> WatchSource<Key> {
        let caches = self.caches.clone();
        WatchSource::objects(&self.caches.records, move |object| {
            let Some(record) = caches.records.get(&object) else { return Wake::none() };
            let owners = record.metadata.owner_references.iter().flatten();
            let namespace = object.namespace.unwrap_or_default();
            let keys = owners.filter(|owner| owner.kind == api::KIND).filter_map(|owner| {
                let shape = Shape::of(&owner.api_version)?;
                Some(Key { shape, namespace: namespace.clone(), name: owner.name.clone() })
            });
            Wake::keys(keys.filter(|key| caches.serving(key).is_some()))
        })
    }

    /// Templates, and what the cluster knows: all ModelServings are planned anew.
    fn watch_surroundings<K>(&self, watch: &Watch<K>) -> WatchSource<Key>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        let (caches, changes) = (self.caches.clone(), self.surroundings.clone());
        WatchSource::objects(watch, move |_| {
            changes.fetch_add(1, Ordering::Relaxed);
            Wake::keys(caches.keys())
        })
    }
}

impl Reconciler for ModelServings {
    type Key = Key;
    type State = Option<Box<ServingState>>;
    type Error = ServingError;

    const NAME: &'static str = "modelserving";

    fn watches(&self) -> Vec<WatchSource<Key>> {
        let caches = &self.caches;
        vec![
            Self::watch_servings(&caches.kthena, Shape::Kthena),
            Self::watch_servings(&caches.short, Shape::Short),
            self.watch_owned(&caches.pods, Kind::Pod),
            self.watch_owned(&caches.services, Kind::Service),
            self.watch_owned(&caches.pod_groups, Kind::PodGroup),
            self.watch_owned(&caches.revisions, Kind::ControllerRevision),
            self.watch_records(),
            self.watch_surroundings::<ConfigMap>(caches.templates.maps()),
            self.watch_surroundings(&caches.pod_group_definition),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        let mut index = OwnerIndex::default();
        add(&mut index, &self.caches.pods, Kind::Pod);
        add(&mut index, &self.caches.services, Kind::Service);
        add(&mut index, &self.caches.pod_groups, Kind::PodGroup);
        add(&mut index, &self.caches.revisions, Kind::ControllerRevision);
        *self.owned.lock() = index;
        self.caches.keys()
    }

    async fn reconcile(
        &self,
        key: &Key,
        state: &mut Self::State,
        context: &Context,
    ) -> Result<Requeue, ServingError> {
        let Some(object) = self.caches.serving(key) else {
            self.view.remove(key);
            return Ok(Requeue::Gone);
        };
        // Another one of the same name has nothing of what is remembered.
        let is_other =
            |known: &mut Box<ServingState>| known.object.metadata().uid != object.metadata().uid;
        drop(state.take_if(is_other));
        let state = state.get_or_insert_with(|| Box::new(ServingState::new(key, object.clone())));
        if is_newer(object.version(), state.object.version()) {
            state.object = object;
        }
        Reconcile { controller: self, context, key, state }.run().await
    }

    fn metrics(&self) -> Option<&ObjectMetrics> {
        Some(&self.metrics.objects)
    }
}

/// Adds all objects of a kind to the index.
fn add<K: Resource<DynamicType = ()> + Clone + 'static>(
    index: &mut OwnerIndex<Owned, Owner>,
    watch: &Watch<K>,
    kind: Kind,
) {
    for object in watch.all() {
        let (namespace, name) = place(ObjectRef::from_obj(&*object));
        index.set((kind, namespace, name), owner(&*object));
    }
}

/// The ModelServing whose name an object carries.
fn owner<K: Resource>(object: &K) -> Option<Owner> {
    let name = object.meta().labels.as_ref()?.get(naming::NAME)?.clone();
    Some((object.meta().namespace.clone().unwrap_or_default(), name))
}

fn place<K: Resource>(object: ObjectRef<K>) -> (String, String) {
    (object.namespace.unwrap_or_default(), object.name)
}
