//! Which keys a change wakes.

use std::fmt::Debug;
use std::hash::Hash;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::reflector::Watch;

/// Which keys are reconciled because something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake<K> {
    /// These.
    Keys(Vec<K>),
    /// All whose last reconcile failed: what they lacked may be there now, such as a runtime that a job names.
    Failed,
    /// All that there are.
    All,
}

/// A stream of changes with what each wakes. One that misses changes, since it was too slow, wakes all keys; when one ends, so
/// does the controller.
pub struct WatchSource<K> {
    pub(crate) name: String,
    pub(crate) ready: BoxFuture<'static, ()>,
    pub(crate) changes: BoxStream<'static, Change<K>>,
}

/// What comes out of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<K> {
    Wake(Wake<K>),
    /// Some were missed.
    Lagged,
    /// None comes any more.
    Ended,
}

// === impl Wake ===

impl<K> Wake<K> {
    /// None.
    pub fn none() -> Self {
        Self::Keys(Vec::new())
    }

    /// This one.
    pub fn key(key: K) -> Self {
        Self::Keys(vec![key])
    }

    /// These.
    pub fn keys(keys: impl IntoIterator<Item = K>) -> Self {
        Self::Keys(keys.into_iter().collect())
    }
}

// === impl WatchSource ===

impl<K: Send + 'static> WatchSource<K> {
    /// The objects of a reflector. `wakes` is told which object has come, changed or gone; the reflector has its new state
    /// by then, and none of one that is gone. It runs on the controller's own task, one change at a time and in order: it
    /// must be quick, and may keep an index ([`crate::index::OwnerIndex`]).
    pub fn objects<T>(
        watch: &Watch<T>,
        wakes: impl FnMut(ObjectRef<T>) -> Wake<K> + Send + 'static,
    ) -> Self
    where
        T: Resource + Clone + Debug + Send + Sync + 'static,
        T::DynamicType: Clone + Eq + Hash + Send + Sync,
    {
        let (name, ready) = (watch.kind(), watch.clone());
        Self::changes(name, watch.subscribe(), wakes).once_ready(async move { ready.ready().await })
    }

    /// Anything that is broadcast, such as the nodes that the hub has heard of.
    pub fn changes<T: Clone + Send + 'static>(
        name: impl Into<String>,
        from: broadcast::Receiver<T>,
        mut wakes: impl FnMut(T) -> Wake<K> + Send + 'static,
    ) -> Self {
        let received = stream::unfold(Some(from), |from| async {
            let mut from = from?;
            Some(match from.recv().await {
                Ok(change) => (Received::Change(change), Some(from)),
                Err(RecvError::Lagged(_)) => (Received::Lagged, Some(from)),
                Err(RecvError::Closed) => (Received::Closed, None),
            })
        });
        let changes = received.map(move |received| match received {
            Received::Change(change) => Change::Wake(wakes(change)),
            Received::Lagged => Change::Lagged,
            Received::Closed => Change::Ended,
        });
        Self {
            name: name.into(),
            ready: Box::pin(std::future::ready(())),
            changes: changes.boxed(),
        }
    }

    /// A reflector that reconciles read, though its changes wake nobody: the controller begins when it is complete.
    pub fn read_only<T>(watch: &Watch<T>) -> Self
    where
        T: Resource + Clone + Debug + Send + Sync + 'static,
        T::DynamicType: Clone + Eq + Hash + Send + Sync,
    {
        let ready = watch.clone();
        let (name, changes) = (watch.kind(), stream::pending().boxed());
        Self { name, ready: Box::pin(async move { ready.ready().await }), changes }
    }

    /// The controller begins no earlier than that.
    #[must_use]
    pub fn once_ready(self, ready: impl Future<Output = ()> + Send + 'static) -> Self {
        let before = self.ready;
        let ready = Box::pin(async move {
            before.await;
            ready.await;
        });
        Self { ready, ..self }
    }
}

impl<K> Debug for WatchSource<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchSource").field("name", &self.name).finish_non_exhaustive()
    }
}

enum Received<T> {
    Change(T),
    Lagged,
    Closed,
}
