//! One reconcile of a LeaderWorkerSet: its ModelServing is applied if it differs, and its status follows.

use std::sync::Arc;

use muster_api::kind::RawObject as _;
use muster_modelserving::lws::{LeaderWorkerSet, Ownership};
use muster_modelserving::shape;
use muster_runtime::metrics::ObjectMetrics;
use muster_runtime::names::FIELD_MANAGER;
use muster_runtime::overlay::{Newest, ObjectVersion, Overlay};
use muster_runtime::reconciler::{Context, Reconciler, Requeue};
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::writer::WriteError;
use tokio::time::Instant;

use super::Caches;
use super::error::LeaderWorkerSetError;
use super::events;
use super::kinds::Set;
use crate::workloads::modelserving::written::KthenaServing;
use crate::workloads::{Key, key_of, same};

/// Makes ModelServings of LeaderWorkerSets.
pub struct Controller {
    caches: Caches,
    metrics: ObjectMetrics,
}

/// What is remembered of a LeaderWorkerSet between two reconciles.
#[derive(Default)]
pub struct SetState {
    /// The objects as the API server has answered with them last.
    set: Overlay<(), Arc<Set>>,
    serving: Overlay<(), Arc<KthenaServing>>,
    /// The last warning, so that it is recorded once and not with each reconcile.
    warned: Option<(&'static str, String)>,
    /// What was told of fields that are not followed.
    ignored: Vec<String>,
}

/// One LeaderWorkerSet that is reconciled.
struct Reconcile<'a> {
    controller: &'a Controller,
    context: &'a Context,
    key: &'a Key,
    object: Arc<Set>,
    set: LeaderWorkerSet,
}

// === impl Controller ===

impl Controller {
    /// Reads these caches, and counts here.
    pub fn new(caches: Caches, metrics: ObjectMetrics) -> Self {
        Self { caches, metrics }
    }
}

impl Reconciler for Controller {
    type Key = Key;
    type State = SetState;
    type Error = LeaderWorkerSetError;

    const NAME: &'static str = "leaderworkerset";

    fn watches(&self) -> Vec<WatchSource<Key>> {
        let sets = self.caches.sets.clone();
        vec![
            WatchSource::objects(&self.caches.sets, |set| {
                Wake::key(Key::new(set.namespace.unwrap_or_default(), set.name))
            }),
            // A ModelServing has the name of its LeaderWorkerSet, and so has one that is in its place.
            WatchSource::objects(&self.caches.servings, move |serving| {
                let key = Key::new(serving.namespace.unwrap_or_default(), serving.name);
                match sets.named(&key.namespace, &key.name) {
                    Some(_) => Wake::key(key),
                    None => Wake::none(),
                }
            }),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        self.caches.sets.all().iter().map(|set| key_of(&set.metadata)).collect()
    }

    async fn reconcile(
        &self,
        key: &Key,
        state: &mut SetState,
        context: &Context,
    ) -> Result<Requeue, LeaderWorkerSetError> {
        let Some(watched) = self.caches.sets.named(&key.namespace, &key.name) else {
            return Ok(Requeue::Gone);
        };
        let version = ObjectVersion::from(&watched.metadata);
        let object = match state.set.newest(&(), Some(&version), context.now()) {
            Newest::Written(set) => Arc::clone(set),
            Newest::Watched | Newest::Deleted => watched,
        };
        state.set.settle(&(), Some(&version), context.now());
        if object.metadata.deletion_timestamp.is_some() {
            // Its ModelServing goes with it.
            return Ok(Requeue::OnChange);
        }
        let result = match LeaderWorkerSet::read(object.object()) {
            Ok(set) => {
                let object = Arc::clone(&object);
                Reconcile { controller: self, context, key, object, set }.run(state).await
            }
            Err(unreadable) => Err(unreadable.into()),
        };
        match &result {
            Ok(_) => state.warned = None,
            Err(error) => {
                if let Some(reason) = error.event() {
                    state.warn(context, &object, reason, error.to_string());
                }
            }
        }
        result
    }

    fn metrics(&self) -> Option<&ObjectMetrics> {
        Some(&self.metrics)
    }
}

// === impl Reconcile ===

impl Reconcile<'_> {
    async fn run(&self, state: &mut SetState) -> Result<Requeue, LeaderWorkerSetError> {
        let wanted = self.set.to_serving();
        let mut serving = self.serving(state);
        let is_applied =
            |serving: &KthenaServing| same::is_applied(&wanted, &serving.object(), FIELD_MANAGER);
        if !serving.as_deref().is_some_and(is_applied) {
            let api = self.context.writer.namespaced::<KthenaServing>(&self.key.namespace);
            if serving.is_none() {
                // The cache may be behind: what is there is not written over before it is known whose it is.
                let found = self.context.writer.read(&api, &self.key.name).await?;
                serving = found.map(Arc::new);
            }
            let mut body = wanted;
            if let Some(there) = &serving {
                let metadata = &there.0.metadata;
                match self.set.ownership(metadata, FIELD_MANAGER) {
                    Ownership::Ours if metadata.deletion_timestamp.is_none() => {}
                    // It is on its way out; the next one is made when it is gone.
                    Ownership::Ours | Ownership::Leaving => return Ok(self.later(state)),
                    Ownership::Another(whose) => {
                        let key = self.key.clone();
                        return Err(LeaderWorkerSetError::Taken { key, whose });
                    }
                }
                // This very object, and no other of its name.
                body["metadata"]["uid"] = metadata.uid.clone().into();
            }
            let applied = self.context.writer.apply(&api, &self.key.name, &body).await?;
            self.controller.metrics.wrote("apply", "ModelServing");
            self.record(serving.is_none(), state);
            serving = Some(state.answered(applied, self.context.now()));
        }
        if let Some(serving) = serving {
            self.follow(&serving, state).await?;
        }
        Ok(self.later(state))
    }

    /// What was written and is never shown was deleted at once: that has to be found out, too.
    fn later(&self, state: &SetState) -> Requeue {
        Requeue::after(state.serving.due(self.context.now()))
    }

    /// The ModelServing as it was seen or written last.
    fn serving(&self, state: &mut SetState) -> Option<Arc<KthenaServing>> {
        let Key { namespace, name } = self.key;
        let (now, watched) =
            (self.context.now(), self.controller.caches.servings.named(namespace, name));
        let version = watched.as_ref().map(|it| ObjectVersion::from(&it.0.metadata));
        let newest = match state.serving.newest(&(), version.as_ref(), now) {
            Newest::Written(serving) => Some(Arc::clone(serving)),
            Newest::Watched | Newest::Deleted => watched,
        };
        state.serving.settle(&(), version.as_ref(), now);
        newest
    }

    /// Tells people what they have now.
    fn record(&self, created: bool, state: &mut SetState) {
        let recorder = &self.context.events;
        if created {
            let note = format!("made ModelServing {}", self.key);
            recorder.normal(self.object.reference(), events::CREATED, note);
        }
        let ignored = self.set.ignored();
        if ignored != state.ignored && !ignored.is_empty() {
            let note = format!("ModelServing {} does not follow {}", self.key, ignored.join("; "));
            recorder.warning(self.object.reference(), events::IGNORED, note);
        }
        state.ignored = ignored;
    }

    /// Writes what the ModelServing says to the status.
    async fn follow(
        &self,
        serving: &KthenaServing,
        state: &mut SetState,
    ) -> Result<(), LeaderWorkerSetError> {
        let serving = shape::read_kthena(&serving.object())?;
        let Some(status) = self.set.status(&serving) else { return Ok(()) };
        let writer = &self.context.writer;
        let api = writer.namespaced::<Set>(&self.key.namespace);
        let version = ObjectVersion::from(&self.object.metadata);
        let of = (version.uid.as_str(), Some(version.resource_version.as_str()));
        match writer.status(&api, &self.key.name, of, status).await {
            Ok(written) => {
                self.controller.metrics.wrote("status", "LeaderWorkerSet");
                let version = ObjectVersion::from(&written.metadata);
                state.set.wrote((), version, Arc::new(written), self.context.now());
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

// === impl SetState ===

impl SetState {
    /// The API server has answered with the ModelServing.
    fn answered(&mut self, serving: KthenaServing, now: Instant) -> Arc<KthenaServing> {
        let (version, serving) = (ObjectVersion::from(&serving.0.metadata), Arc::new(serving));
        self.serving.wrote((), version, Arc::clone(&serving), now);
        serving
    }

    fn warn(&mut self, context: &Context, about: &Set, reason: &'static str, note: String) {
        let warning = Some((reason, note));
        if self.warned == warning {
            return;
        }
        if let Some((reason, note)) = &warning {
            context.events.warning(about.reference(), *reason, note.clone());
        }
        self.warned = warning;
    }
}
