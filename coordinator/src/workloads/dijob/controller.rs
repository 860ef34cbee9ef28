//! One reconcile of a job: the operator is given what there is, and what it decides is done.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod as ApiPod, Service};
use muster_dijob::api::{Status, phase};
use muster_dijob::operator::{self, Event, Remnants, Step};
use muster_dijob::pod::Pod;
use tokio::time::Instant;

use super::kinds::{self, Job};
use super::{Caches, Settings};
use crate::workloads::{Key, key_of};
use muster_runtime::events::EventKind;
use muster_runtime::metrics::ObjectMetrics;
use muster_runtime::overlay::{Newest, ObjectVersion, Overlay};
use muster_runtime::reconciler::{Context, ReconcileError, Reconciler, Requeue};
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::writer::WriteError;

/// A job that was reconciled as it was before is reconciled again after this.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Reconciles DIJobs.
pub struct Controller {
    caches: Caches,
    settings: Settings,
    metrics: ObjectMetrics,
}

/// What is remembered of a job between two reconciles.
#[derive(Default)]
pub struct JobState {
    remnants: Option<Remnants>,
    /// The job as the API server has answered with it last.
    job: Overlay<(), Arc<Job>>,
}

/// Why a job cannot be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum DiJobError {
    /// A write has failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The operator cannot go on.
    #[error("{0}")]
    Stuck(String),
}

/// One job that is reconciled.
struct Pass<'a> {
    controller: &'a Controller,
    context: &'a Context,
    key: &'a Key,
    job: Arc<Job>,
}

// === impl Controller ===

impl Controller {
    /// Reads these caches, and counts here.
    pub fn new(caches: Caches, settings: Settings, metrics: ObjectMetrics) -> Self {
        Self { caches, settings, metrics }
    }
}

impl Reconciler for Controller {
    type Key = Key;
    type State = JobState;
    type Error = DiJobError;

    const NAME: &'static str = "dijob";
    const PARALLEL: usize = 32;

    fn watches(&self) -> Vec<WatchSource<Key>> {
        let Caches { jobs, configs, nodes, cache, definition } = &self.caches;
        let known = jobs.clone();
        let things = move |key: Key| match known.named(&key.namespace, &key.name) {
            Some(_) => Wake::key(key),
            // Pods may carry the name of a job that is no more.
            None => Wake::none(),
        };
        let filled = cache.clone();
        vec![
            WatchSource::objects(jobs, |job| {
                Wake::key(Key::new(job.namespace.unwrap_or_default(), job.name))
            }),
            WatchSource::changes("pods and services of DIJobs", cache.subscribe(), things)
                .once_ready(async move { filled.ready().await }),
            WatchSource::read_only(configs),
            WatchSource::read_only(nodes),
            WatchSource::read_only(definition),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        let jobs = self.caches.jobs.all();
        jobs.iter().map(|job| key_of(&job.0.metadata)).collect()
    }

    async fn reconcile(
        &self,
        key: &Key,
        state: &mut JobState,
        context: &Context,
    ) -> Result<Requeue, DiJobError> {
        let Some(watched) = self.caches.jobs.named(&key.namespace, &key.name) else {
            return Ok(Requeue::Gone);
        };
        let version = ObjectVersion::from(&watched.0.metadata);
        let job = match state.job.newest(&(), Some(&version), context.now()) {
            Newest::Written(job) => Arc::clone(job),
            Newest::Watched | Newest::Deleted => watched,
        };
        state.job.settle(&(), Some(&version), context.now());
        if job.0.metadata.deletion_timestamp.is_some() {
            // What it has goes with it.
            return Ok(Requeue::OnChange);
        }
        Pass { controller: self, context, key, job }.run(state).await
    }

    fn metrics(&self) -> Option<&ObjectMetrics> {
        Some(&self.metrics)
    }
}

// === impl Pass ===

impl Pass<'_> {
    async fn run(&self, state: &mut JobState) -> Result<Requeue, DiJobError> {
        let Caches { cache, .. } = &self.controller.caches;
        let (namespace, now) = (self.key.namespace.as_str(), self.context.timestamp());
        let read = match self.job.read() {
            Ok(read) => read,
            Err(why) => {
                let name = self.key.to_string();
                let unreadable = operator::unreadable(self.job.status(), &name, &why, now);
                if let Some((status, event)) = unreadable {
                    self.write_status(&status, state).await?;
                    self.record(event);
                }
                return Ok(Requeue::OnChange);
            }
        };
        let pods = cache.pods_of(namespace, &read.label());
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let services = cache.services_of(namespace, &read.label());
        let Settings { make, patience, .. } = &self.controller.settings;
        let remnants = state.remnants.get_or_insert_with(|| Remnants::new(*patience));
        let pass = operator::reconcile(&read, &pods, &services, remnants, make, now);
        let makes_pods = pass.steps.iter().any(|step| matches!(step, Step::CreatePod(_)));
        if makes_pods && self.is_behind(state).await? {
            return Ok(Requeue::After(AT_ONCE));
        }
        for step in &pass.steps {
            match self.act(step).await {
                Ok(true) => self.record(step.done()),
                Ok(false) => {}
                Err(error @ WriteError::NotLeader(_)) => return Err(error.into()),
                Err(error) => {
                    self.record(step.failed(&error.to_string()));
                    // What is known by now is written all the same; the rest waits.
                    if pass.changed {
                        self.write_status(&pass.status, state).await?;
                        pass.events.into_iter().for_each(|event| self.record(event));
                    }
                    return Err(error.into());
                }
            }
        }
        if pass.changed {
            self.write_status(&pass.status, state).await?;
        }
        pass.events.into_iter().for_each(|event| self.record(event));
        match pass.trouble {
            Some(trouble) => Err(DiJobError::Stuck(trouble)),
            None => Ok(Requeue::after(pass.again)),
        }
    }

    /// Whether the job has ended by now, or is another one: our picture of it may be older than that of its pods, and what
    /// has ended is not begun again.
    async fn is_behind(&self, state: &mut JobState) -> Result<bool, WriteError> {
        let Some(live) = self.live().await? else { return Ok(true) };
        let ended = live.status().is_some_and(|status| phase::is_final(&status.phase));
        let behind = live.0.metadata.uid != self.job.0.metadata.uid
            || live.0.metadata.deletion_timestamp.is_some()
            || ended;
        if behind {
            state.answered(live, self.context.now());
        }
        Ok(behind)
    }

    /// The job as the API server has it now.
    async fn live(&self) -> Result<Option<Job>, WriteError> {
        let writer = &self.context.writer;
        let api = kinds::raw::<Job>(writer, &self.key.namespace);
        let found = writer.read(&api, &self.key.name).await?;
        Ok(found.and_then(|found| serde_json::from_value(serde_json::to_value(found).ok()?).ok()))
    }

    /// Does a step; whether anything has come of it.
    async fn act(&self, step: &Step) -> Result<bool, WriteError> {
        let Controller { caches: Caches { cache, .. }, metrics, settings } = self.controller;
        let (writer, namespace) = (&self.context.writer, self.key.namespace.as_str());
        let (pods, services) =
            (kinds::raw::<ApiPod>(writer, namespace), kinds::raw::<Service>(writer, namespace));
        match step {
            Step::CreatePod(pod) => {
                match writer.create(&pods, &kinds::dynamic(pod.to_value())).await {
                    Ok(made) => {
                        metrics.wrote("create", "Pod");
                        let made = serde_json::to_value(made).unwrap_or_default();
                        // What cannot be read is known when the watch brings it.
                        if let Ok(made) = serde_json::from_value(made) {
                            cache.made(made);
                        }
                        Ok(true)
                    }
                    Err(error @ WriteError::Exists { .. }) => {
                        // Ours, and not seen yet; or somebody else's, which must be said.
                        let found = writer.read(&pods, pod.name()).await?;
                        let found = found.and_then(|found| serde_json::to_value(found).ok());
                        let found: Option<Pod> =
                            found.and_then(|found| serde_json::from_value(found).ok());
                        let job = |pod: &Pod| pod.job().map(|owner| owner.uid.clone());
                        match found {
                            Some(found) if job(&found) == job(pod) => {
                                cache.made(found);
                                Ok(false)
                            }
                            Some(_) => Err(error),
                            None => Ok(false),
                        }
                    }
                    Err(error) => Err(error),
                }
            }
            Step::CreateService(service) => {
                let object = kinds::dynamic(service.clone());
                let (made, new) = match writer.create(&services, &object).await {
                    Ok(made) => (Some(made), true),
                    Err(WriteError::Exists { .. }) => {
                        let name = object.metadata.name.as_deref().unwrap_or_default();
                        (writer.read(&services, name).await?, false)
                    }
                    Err(error) => return Err(error),
                };
                let made = made.and_then(|made| serde_json::to_value(made).ok());
                if let Some(Ok(made)) = made.map(serde_json::from_value) {
                    cache.made_service(&made);
                }
                if new {
                    metrics.wrote("create", "Service");
                }
                Ok(new)
            }
            Step::DeletePod(pod) => {
                let how = kinds::this_one(&pod.uid, Some(settings.grace));
                let gone = gone(writer.delete(&pods, &pod.name, &how).await)?;
                metrics.wrote("delete", "Pod");
                cache.deleted(namespace, &pod.name, &pod.uid);
                Ok(gone)
            }
            Step::DeleteService(service) => {
                let how = kinds::this_one(&service.uid, None);
                let gone = writer.delete(&services, &service.name, &how).await;
                let gone = self::gone(gone)?;
                metrics.wrote("delete", "Service");
                cache.deleted_service(namespace, &service.name, &service.uid);
                Ok(gone)
            }
        }
    }

    async fn write_status(&self, status: &Status, state: &mut JobState) -> Result<(), WriteError> {
        let (writer, name) = (&self.context.writer, &self.key.name);
        let uid = self.job.0.metadata.uid.clone().unwrap_or_default();
        let api = writer.namespaced::<Job>(&self.key.namespace);
        let value = serde_json::to_value(status).unwrap_or_default();
        match writer.status(&api, name, (&uid, Some(self.job.version())), value).await {
            Ok(written) => {
                self.controller.metrics.wrote("status", "DIJob");
                state.answered(written, self.context.now());
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error @ WriteError::Conflict { .. }) => {
                // The next reconcile is of the job as it is by now.
                if let Some(live) = self.live().await? {
                    state.answered(live, self.context.now());
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn record(&self, event: Event) {
        let (kind, about) = (EventKind::of(event.warning), self.job.reference());
        self.context.events.record(kind, about, event.reason, event.message);
    }
}

/// Another one has its name by now: the one that was meant is gone.
fn gone(deleted: Result<(), WriteError>) -> Result<bool, WriteError> {
    match deleted {
        Ok(()) => Ok(true),
        Err(WriteError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

// === impl JobState ===

impl JobState {
    /// The API server has answered with the job.
    fn answered(&mut self, job: Job, now: Instant) {
        let version = ObjectVersion::from(&job.0.metadata);
        self.job.wrote((), version, Arc::new(job), now);
    }
}

// === impl DiJobError ===

impl ReconcileError for DiJobError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Write(error) => error.reason(),
            Self::Stuck(_) => "trouble",
        }
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::Write(WriteError::NotLeader(_)))
    }
}
