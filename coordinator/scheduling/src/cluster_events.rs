//! Everything that changes, in one line: the API server's objects, and what agents say.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Instant;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use muster_scheduler::input::{
    self, BindRequest, Meta, Node, NodeResourceTopology, PersistentVolume, PersistentVolumeClaim,
    Pod, PodGroup, PriorityClass, Queue, StorageClass, Topology,
};
use muster_scheduler_state::object::{Name, name};
use muster_scheduler_state::{Kind, Object};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::kinds::{Coscheduling, Volcano};
use super::watched::{TrimmedKind, Watched};
use super::{Caches, agents};
use muster_runtime::reflector::{Watch, WatchHealth};
use muster_runtime::writer::Writer;

/// Changes that wait to be looked at; who has more waits.
const WAITING: usize = 4096;
/// Config maps of one page of a listing.
const PAGE: u32 = 500;

/// Something has changed.
#[derive(Debug)]
pub enum Change {
    /// An object is there, or is another.
    Put(Box<Object>),
    /// A pod that has no group yet.
    Ungrouped(Name, Value),
    /// An object is gone.
    Gone(Kind, Name),
    /// All objects of a kind were listed: these, and no others.
    Listed(Kind, BTreeSet<Name>),
    /// The agent of a node has said something new.
    Agent(String),
    /// An object cannot be read, and why.
    Unreadable(Kind, Name, String),
}

/// Everything that changes.
pub struct ClusterEvents {
    changes: mpsc::Receiver<Change>,
    /// Kinds that have to be listed before anything is decided.
    pub kinds: BTreeSet<Kind>,
}

/// Where watches put what they see.
#[derive(Clone)]
struct Watching {
    client: Client,
    to: mpsc::Sender<Change>,
    stop: CancellationToken,
}

// === impl ClusterEvents ===

impl ClusterEvents {
    /// Begins to watch.
    pub fn start(writer: &Writer, sources: &Caches, stop: &CancellationToken) -> Self {
        let (to, changes) = mpsc::channel(WAITING);
        let watching = Watching { client: writer.reader(), to, stop: stop.clone() };
        let mut kinds = BTreeSet::new();
        let defined = &sources.definitions;
        macro_rules! watch {
            ($($kind:ty),*) => {$(
                kinds.insert(<$kind as TrimmedKind>::OF);
                tokio::spawn(watching.clone().follow::<$kind>());
            )*};
        }
        macro_rules! watch_if {
            ($($kind:ty, $definition:ident);*) => {$(
                kinds.insert(<$kind as TrimmedKind>::OF);
                let definition = defined.$definition.clone();
                tokio::spawn(watching.clone().follow_once_defined::<$kind>(definition));
            )*};
        }
        watch!(Node, Pod, PriorityClass, PersistentVolumeClaim, PersistentVolume, StorageClass);
        watch_if!(Queue, queues; PodGroup, pod_groups; BindRequest, bind_requests;
            Topology, topologies; Coscheduling, coscheduling; Volcano, volcano;
            NodeResourceTopology, zones);
        kinds.insert(Kind::ConfigMap);
        let (hub, to) = (sources.hub.clone(), watching.to.clone());
        tokio::spawn(agents::follow(hub, to, stop.clone()));
        tokio::spawn(watching.follow_config_maps());
        Self { changes, kinds }
    }

    /// Changes that have come; waits for the first. None when nobody watches any more.
    pub async fn recv(&mut self, into: &mut Vec<Change>) -> Option<usize> {
        let count = self.changes.recv_many(into, WAITING).await;
        (count > 0).then_some(count)
    }
}

// === impl Watching ===

impl Watching {
    async fn follow_once_defined<T: TrimmedKind>(
        self,
        definition: Watch<CustomResourceDefinition>,
    ) {
        definition.ready().await;
        if !serves(&definition, T::VERSION) {
            self.tell(Change::Listed(T::OF, BTreeSet::new())).await;
        }
        tokio::select! {
            () = self.stop.cancelled() => return,
            () = served(&definition, T::VERSION) => {}
        }
        self.follow::<T>().await;
    }

    async fn follow<T: TrimmedKind>(self) {
        let api: Api<Watched<T>> = Api::all(self.client.clone());
        let config = watcher::Config::default().page_size(T::PAGE);
        let stream = watcher(api, config).default_backoff();
        self.run(T::OF, T::KIND, stream, |seen: Watched<T>| {
            let name = named(seen.meta());
            let mut changes = Vec::new();
            match seen.lean {
                Ok(lean) => {
                    changes.push(Change::Put(Box::new(lean.object())));
                    changes.extend(seen.whole.map(|pod| Change::Ungrouped(name, pod)));
                }
                Err(why) => changes.push(Change::Unreadable(T::OF, name, why)),
            }
            changes
        })
        .await;
    }

    /// Of config maps only that they are there.
    async fn follow_config_maps(self) {
        let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(self.client.clone());
        let config = watcher::Config::default().page_size(PAGE);
        let stream = watcher(api, config).default_backoff();
        self.run(Kind::ConfigMap, "ConfigMap", stream, |seen: PartialObjectMeta<ConfigMap>| {
            let (namespace, name) = named(&seen.metadata);
            let metadata =
                Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
            vec![Change::Put(Box::new(Object::ConfigMap(input::ConfigMap { metadata })))]
        })
        .await;
    }

    async fn run<K>(
        self,
        kind: Kind,
        called: &'static str,
        stream: impl futures::Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
        read: impl Fn(K) -> Vec<Change>,
    ) where
        K: Resource<DynamicType = ()> + Debug,
    {
        let mut stream = std::pin::pin!(stream);
        let mut listed = BTreeSet::new();
        let mut health = WatchHealth::of(called);
        loop {
            let event = tokio::select! {
                () = self.stop.cancelled() => return,
                event = stream.next() => event,
            };
            if let Some(event) = &event {
                health.observe(event, Instant::now());
            }
            let changes = match event {
                Some(Ok(watcher::Event::Init)) => {
                    listed.clear();
                    continue;
                }
                Some(Ok(watcher::Event::InitApply(object))) => {
                    listed.insert(named(object.meta()));
                    read(object)
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    vec![Change::Listed(kind, std::mem::take(&mut listed))]
                }
                Some(Ok(watcher::Event::Apply(object))) => read(object),
                Some(Ok(watcher::Event::Delete(object))) => {
                    vec![Change::Gone(kind, named(object.meta()))]
                }
                Some(Err(_)) => continue,
                None => return,
            };
            for change in changes {
                if !self.tell(change).await {
                    return;
                }
            }
        }
    }

    async fn tell(&self, change: Change) -> bool {
        self.to.send(change).await.is_ok()
    }
}

/// Returns when the cluster knows a kind in this version.
pub async fn served(definition: &Watch<CustomResourceDefinition>, version: &str) {
    let mut changes = definition.subscribe();
    definition.ready().await;
    while !serves(definition, version) {
        // Whatever was missed, the next look sees it.
        let _received = changes.recv().await;
    }
}

fn serves(definition: &Watch<CustomResourceDefinition>, version: &str) -> bool {
    let serves = |known: &CustomResourceDefinition| {
        known.spec.versions.iter().any(|known| known.served && known.name == version)
    };
    definition.all().iter().any(|known| serves(known))
}

fn named(meta: &ObjectMeta) -> Name {
    name(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}
