//! Reconciles TrainJobs: which changes wake which job.

mod pass;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use muster_api::TrainJob;
use muster_pipeline::cluster::Cluster as _;
use muster_pipeline::in_use;
use parking_lot::Mutex;
use serde_json::Value;

use super::caches::Caches;
use super::kinds::{Job, controller};
use super::owned::{KindId, SECRET};
use super::state::{At, JobState};
use super::{Metrics, Rules, StatusView};
use crate::workloads::{Key, key_of};
use muster_api::kind::RawObject as _;
use muster_runtime::ObjectMetrics;
use muster_runtime::any_object::AnyObject;
use muster_runtime::index::OwnerIndex;
use muster_runtime::overlay::Departed;
use muster_runtime::reconciler::{Context, ReconcileError, Reconciler, Requeue};
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::writer::WriteError;
use pass::JobPass;

/// Reconciles TrainJobs.
pub struct Controller {
    pub(super) caches: Caches,
    pub(super) rules: Arc<Rules>,
    pub(super) metrics: Metrics,
    pub(super) view: StatusView,
    shared: Arc<Shared>,
}

/// What is known of all jobs together.
#[derive(Default)]
struct Shared {
    objects: Mutex<Objects>,
    /// How often anything has changed that is no job's.
    surroundings: AtomicU64,
}

/// Objects that jobs own.
#[derive(Default)]
struct Objects {
    /// The job of each object: of those that the caches have, and of those that were just made.
    owners: OwnerIndex<(KindId, Key), Key>,
    /// Objects that have come and gone.
    departed: Departed,
}

/// Why a job cannot be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum TrainJobError {
    /// This coordinator is not the leader any more.
    #[error(transparent)]
    NotLeader(#[from] muster_runtime::election::NotLeader),
    /// A write has failed.
    #[error("{message}")]
    Write {
        /// The reason in one word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// The pipeline cannot make what the job needs, or its objects come and go.
    #[error("{0}")]
    Pipeline(String),
    /// The object is no TrainJob that can be read.
    #[error("a TrainJob cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

// === impl Controller ===

impl Controller {
    /// Reads these caches, decides by these rules, and shows how jobs are.
    pub fn new(caches: Caches, rules: Arc<Rules>, metrics: Metrics, view: StatusView) -> Self {
        Self { caches, rules, metrics, view, shared: Arc::default() }
    }

    /// An object has come, changed or gone: its job is woken, and the one that it had before.
    fn object_changed(&self, kind: KindId, object: &ObjectRef<AnyObject>) -> Vec<Key> {
        let namespace = object.namespace.clone().unwrap_or_default();
        let metadata = self.caches.owned.metadata(kind, &namespace, &object.name);
        let mut objects = self.shared.objects.lock();
        if let (Some(uid), None) = (&object.extra.uid, &metadata) {
            objects.departed.note(uid.clone());
        }
        let owner = metadata.as_ref().and_then(controller);
        let owner = owner.map(|owner| Key::new(&namespace, &owner.name));
        let mut jobs = objects.owners.set((kind, Key::new(&namespace, &object.name)), owner);
        let known = |job: &Key| self.caches.jobs.named(&job.namespace, &job.name).is_some();
        jobs.retain(known);
        jobs
    }

    /// Whether a Secret has the certificates that trainers get who report their progress.
    fn is_trusted(&self, kind: KindId, object: &ObjectRef<AnyObject>) -> bool {
        let settings = &self.rules.settings;
        settings.train_job_status
            && self.caches.owned.id(SECRET.0, SECRET.1) == Some(kind)
            && object.namespace.as_ref() == Some(&settings.namespace)
            && object.name == settings.status_secret
    }

    /// Suspended jobs are woken: only of these something may change.
    fn suspended(&self, which: impl Fn(&Job) -> bool) -> Wake<Key> {
        let suspended = |job: &Job| {
            job.rest.get("spec").and_then(|spec| spec.get("suspend")) == Some(&Value::Bool(true))
        };
        let jobs = self.caches.jobs.all();
        let found = jobs.iter().filter(|job| suspended(job) && which(job));
        Wake::keys(found.map(|job| key_of(&job.metadata)))
    }

    /// Whether the pods of a job's runtime name a RuntimeClass.
    fn runs_with(&self, job: &Job, class: &str) -> bool {
        let Ok(job) = serde_json::from_value::<TrainJob>(job.object()) else { return false };
        let Some((kind, _, name)) = in_use::used_by(&job) else { return false };
        let runtime = self.caches.runtime(kind, job.namespace(), name);
        runtime.is_some_and(|runtime| {
            runtime.jobs.iter().any(|job| {
                job.pointer("/template/spec/template/spec/runtimeClassName")
                    .is_some_and(|named| named == class)
            })
        })
    }

    /// A handle for the closures of sources.
    fn handle(&self) -> Self {
        Self {
            caches: self.caches.clone(),
            rules: Arc::clone(&self.rules),
            metrics: self.metrics.clone(),
            view: self.view.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Reconciler for Controller {
    type Key = Key;
    type State = JobState;
    type Error = TrainJobError;

    const NAME: &'static str = "trainjob";

    fn watches(&self) -> Vec<WatchSource<Key>> {
        let Caches { jobs, runtimes, cluster_runtimes, owned, priority_classes, .. } = &self.caches;
        let mut sources = vec![
            WatchSource::objects(jobs, |job| {
                Wake::key(Key::new(job.namespace.unwrap_or_default(), job.name))
            }),
            WatchSource::read_only(priority_classes),
        ];
        for (kind, objects) in owned.iter() {
            let own = self.handle();
            sources.push(WatchSource::objects(&objects.objects, move |object| {
                if own.is_trusted(kind, &object) {
                    return Wake::All;
                }
                Wake::Keys(own.object_changed(kind, &object))
            }));
        }
        if let Some(limit_ranges) = &self.caches.limit_ranges {
            let own = self.handle();
            sources.push(WatchSource::objects(limit_ranges, move |one| {
                own.shared.surroundings_changed();
                own.suspended(|job| job.metadata.namespace == one.namespace)
            }));
        }
        if let Some(runtime_classes) = &self.caches.runtime_classes {
            let own = self.handle();
            sources.push(WatchSource::objects(runtime_classes, move |class| {
                own.shared.surroundings_changed();
                own.suspended(|job| own.runs_with(job, &class.name))
            }));
        }
        // What could not be done may be possible now.
        macro_rules! surroundings {
            ($($watch:expr),*) => {$(
                let shared = Arc::clone(&self.shared);
                sources.push(WatchSource::objects($watch, move |_| {
                    shared.surroundings_changed();
                    Wake::Failed
                }));
            )*};
        }
        surroundings!(runtimes, cluster_runtimes, self.caches.templates.maps());
        for definition in &self.caches.definitions {
            surroundings!(definition);
        }
        sources
    }

    fn keys(&self) -> Vec<Key> {
        self.shared.surroundings_changed();
        for (kind, owned) in self.caches.owned.iter() {
            let found = owned.objects.all();
            let now = found.iter().map(|object| (kind, key_of(&object.metadata)));
            let now: HashSet<(KindId, Key)> = now.collect();
            let mut objects = self.shared.objects.lock();
            let gone = objects.owners.objects().filter(|at| at.0 == kind && !now.contains(at));
            for at in gone.cloned().collect::<Vec<_>>() {
                objects.owners.set(at, None);
            }
            for object in &found {
                let owner = controller(&object.metadata);
                let owner = owner
                    .map(|owner| Key::new(object.namespace().unwrap_or_default(), &owner.name));
                objects.owners.set((kind, key_of(&object.metadata)), owner);
            }
        }
        self.caches.jobs.all().iter().map(|job| key_of(&job.metadata)).collect()
    }

    async fn reconcile(
        &self,
        key: &Key,
        state: &mut JobState,
        context: &Context,
    ) -> Result<Requeue, TrainJobError> {
        state.objects.forget_departed(&self.shared.objects.lock().departed);
        let surroundings = self.shared.surroundings.load(Ordering::Relaxed);
        let pass = JobPass { controller: self, context, key, surroundings };
        let requeue = pass.run(state).await?;
        // What was made may be gone again before anybody has seen it.
        if state.objects.has_departed(&self.shared.objects.lock().departed) {
            return Ok(Requeue::After(Duration::ZERO));
        }
        Ok(requeue)
    }

    fn metrics(&self) -> Option<&ObjectMetrics> {
        Some(&self.metrics.objects)
    }
}

// === impl Shared ===

impl Shared {
    fn surroundings_changed(&self) {
        self.surroundings.fetch_add(1, Ordering::Relaxed);
    }

    /// We have made an object for a job: the job is woken when it changes, also if the caches never had it before.
    fn made(&self, (kind, name): &At, job: &Key, uid: &str) {
        let mut objects = self.objects.lock();
        if !objects.departed.has(uid) {
            objects.owners.set((*kind, Key::new(&job.namespace, name)), Some(job.clone()));
        }
    }
}

// === impl TrainJobError ===

impl TrainJobError {
    /// What the API server said, for a person; or that this coordinator must stop.
    fn write(error: &WriteError) -> Self {
        match error {
            WriteError::NotLeader(not_leader) => Self::NotLeader(*not_leader),
            error => Self::Write { reason: error.reason(), message: error.to_string() },
        }
    }
}

impl ReconcileError for TrainJobError {
    fn reason(&self) -> &'static str {
        match self {
            Self::NotLeader(_) => "not-leader",
            Self::Write { reason, .. } => reason,
            Self::Pipeline(_) => "pass",
            Self::Unreadable(_) => "unreadable",
        }
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::NotLeader(_))
    }
}
