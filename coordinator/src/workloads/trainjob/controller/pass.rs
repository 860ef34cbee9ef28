//! One reconcile of a TrainJob: decide, apply what differs, write the status, delete what is late.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Preconditions};
use muster_api::TrainJob;
use muster_api::names::{API_VERSION, FIELD_MANAGER, JOB_SET_API, TRAIN_JOB};
use muster_pipeline::cluster::Cluster as _;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin;
use muster_pipeline::reconcile::{Outcome, Pass, Plan};
use muster_pipeline::snapshot;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Controller, TrainJobError};
use crate::workloads::Key;
use crate::workloads::trainjob::kinds::{Job, controller, resource};
use crate::workloads::trainjob::state::{JobState, ReadLog, View, identity};
use crate::workloads::trainjob::status_view::JobLine;
use muster_api::kind::RawObject as _;
use muster_runtime::events::EventKind;
use muster_runtime::overlay::ObjectVersion;
use muster_runtime::reconciler::{Context, Requeue};
use muster_runtime::writer::WriteError;

/// The kind of what runs a job.
const JOB_SET: (&str, &str) = (JOB_SET_API, "JobSet");

/// One job that is reconciled.
pub struct JobPass<'a> {
    /// Of this controller.
    pub controller: &'a Controller,
    /// Writes, events, clock, randomness.
    pub context: &'a Context,
    /// The job.
    pub key: &'a Key,
    /// How often anything has changed that is no job's.
    pub surroundings: u64,
}

/// How far a plan was followed.
enum Applied {
    /// To its end.
    All,
    /// Something that is made once was there, unseen; it is known now, and the plan may be another.
    WasThere,
    /// Until this went wrong.
    Not(TrainJobError),
}

/// A job has no more objects that are made once.
const MOST_SURPRISES: usize = 3;

// === impl JobPass ===

impl JobPass<'_> {
    /// Reconciles the job.
    pub async fn run(&self, state: &mut JobState) -> Result<Requeue, TrainJobError> {
        let (caches, moment) = (&self.controller.caches, self.context.now());
        state.tidy(caches, self.key, moment);
        // Most changes are echoes of our own writes.
        if state.is_settled(caches, self.key, self.surroundings, moment) {
            return Ok(Requeue::after(state.due(moment)));
        }
        state.unsettle();
        let Some(object) = state.job(caches, self.key, moment) else {
            self.controller.view.remove(self.key);
            return Ok(Requeue::Gone);
        };
        let mut job: TrainJob = serde_json::from_value(object)?;
        // What is being deleted gets nothing new; whoever deletes takes the rest away.
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Requeue::OnChange);
        }
        let (now, log) = (self.context.timestamp(), ReadLog::default());
        // Whether it is late is decided below, whatever the plan asks for.
        self.view(state, &log).note_kind(JOB_SET, &self.key.name);
        let begun = Instant::now();
        let mut plan = self.decide(&job, (state, &log), now, |pass| pass.plan());
        let mut thought = begun.elapsed();
        if plan.apply.iter().any(|object| snapshot::is_snapshot(&job, object))
            && let Some(left) = state.snapshot.remaining(job.uid(), moment)
        {
            return Ok(Requeue::After(left));
        }
        for (api_version, kind, name) in plan.apply.iter().map(identity) {
            self.view(state, &log).note_kind((api_version, kind), name);
        }
        let mut applied = self.apply(&job, &plan, state).await?;
        for _ in 0..MOST_SURPRISES {
            if !matches!(applied, Applied::WasThere) {
                break;
            }
            plan = self.decide(&job, (state, &log), now, |pass| pass.plan());
            applied = self.apply(&job, &plan, state).await?;
        }
        let snapshot = self.view(state, &log).snapshot(job.namespace(), &snapshot::name(&job));
        if snapshot.is_some_and(|found| found.controller.as_deref() == Some(job.uid())) {
            state.snapshot.seen(job.uid());
        }
        let mut failure = match applied {
            Applied::All => None,
            Applied::WasThere => {
                let text = "objects of this job come and go".to_owned();
                Some(TrainJobError::Pipeline(text))
            }
            Applied::Not(error) => Some(error),
        };
        let begun = Instant::now();
        let said = failure.as_ref().map(ToString::to_string);
        let settle = |pass: &Pass<'_>| pass.settle(&plan, said.as_deref());
        let outcome = self.decide(&job, (state, &log), now, settle);
        thought += begun.elapsed();
        self.controller.metrics.decided(thought);
        if let (None, Some(error)) = (&failure, &outcome.error) {
            failure = Some(TrainJobError::Pipeline(error.clone()));
        }
        self.record(&job, &outcome, state);
        match self.write_status(&mut job, &outcome, state).await {
            Ok(()) if outcome.delete_job_set => {
                if let Err(error) = self.delete_job_set(&job, state).await {
                    failure = Some(error);
                }
            }
            Ok(()) => {}
            Err(error) => failure = Some(error),
        }
        if let Some(not_leader @ TrainJobError::NotLeader(_)) = failure {
            return Err(not_leader);
        }
        let trouble = failure.as_ref().map(ToString::to_string);
        self.controller.view.set(self.key, JobLine::of(&job, trouble));
        if let Some(error) = failure {
            return Err(error);
        }
        // What time alone changes is reconciled again.
        if outcome.requeue.is_none() {
            state.settle(job.metadata.resource_version.clone(), self.surroundings, log);
        }
        Ok(Requeue::after(outcome.requeue.into_iter().chain(state.due(moment)).min()))
    }

    fn decide<T>(
        &self,
        job: &TrainJob,
        (state, log): (&JobState, &ReadLog),
        now: Timestamp,
        ask: impl FnOnce(&Pass<'_>) -> T,
    ) -> T {
        let rules = &self.controller.rules;
        let mut seed = [0u8; 64];
        self.context.environment.randomness.fill(&mut seed);
        let keys = Keys { seed: Some(seed), curve_of_uid: false };
        let view = self.view(state, log);
        let context = plugin::Context { cluster: &view, settings: &rules.settings, keys: &keys };
        let (registry, runtimes) = (&rules.registry, &rules.runtimes);
        ask(&Pass { job, context, registry, runtimes, now })
    }

    fn view<'a>(&'a self, state: &'a JobState, log: &'a ReadLog) -> View<'a> {
        let (caches, namespace) = (&self.controller.caches, &self.key.namespace);
        View { caches, state, namespace, log, now: self.context.now() }
    }

    /// Applies what differs, in order. Keys and the snapshot are created: what the watch has not shown yet, an earlier
    /// leader's or one whose answer was lost, is never replaced.
    async fn apply(
        &self,
        job: &TrainJob,
        plan: &Plan,
        state: &mut JobState,
    ) -> Result<Applied, TrainJobError> {
        let writer = self.context.writer.with_manager(FIELD_MANAGER);
        let metrics = &self.controller.metrics.objects;
        for wanted in &plan.apply {
            if self.view(state, &ReadLog::default()).has(wanted) {
                continue;
            }
            let (api_version, kind, name) = identity(wanted);
            let api = writer.dynamic(&resource(api_version, kind), Some(&self.key.namespace));
            let (verb, written) = if self.controller.rules.registry.is_made_once(job, wanted) {
                let object = match serde_json::from_value(wanted.clone()) {
                    Ok(object) => object,
                    Err(error) => {
                        let text = format!("{kind}: {error}");
                        return Ok(Applied::Not(TrainJobError::Pipeline(text)));
                    }
                };
                ("create", writer.create(&api, &object).await)
            } else {
                ("apply", writer.apply(&api, name, wanted).await)
            };
            match written {
                Ok(answer) => {
                    metrics.wrote(verb, known(kind));
                    self.applied(state, wanted, serde_json::to_value(answer).unwrap_or_default());
                }
                Err(WriteError::Exists { .. }) => {
                    match writer.read(&api, name).await {
                        Ok(Some(found)) => {
                            let found = serde_json::to_value(found).unwrap_or_default();
                            self.applied(state, wanted, found);
                        }
                        Ok(None) => {}
                        Err(error) => return self.stopped(&error),
                    }
                    return Ok(Applied::WasThere);
                }
                Err(error) => return self.stopped(&error),
            }
        }
        Ok(Applied::All)
    }

    fn stopped(&self, error: &WriteError) -> Result<Applied, TrainJobError> {
        match TrainJobError::write(error) {
            not_leader @ TrainJobError::NotLeader(_) => Err(not_leader),
            error => Ok(Applied::Not(error)),
        }
    }

    /// The API server has answered with an object that was wanted.
    fn applied(&self, state: &mut JobState, wanted: &Value, answer: Value) {
        let (api_version, kind, name) = identity(wanted);
        let Some(kind) = self.controller.caches.owned.id(api_version, kind) else {
            return state.applied_undeclared(wanted);
        };
        let (at, version) = ((kind, name.to_owned()), ObjectVersion::of(&answer));
        self.controller.shared.made(&at, self.key, &version.uid);
        state.objects.wrote(at, version, answer, self.context.now());
    }

    fn record(&self, job: &TrainJob, outcome: &Outcome, state: &mut JobState) {
        for event in &outcome.events {
            if state.is_news(&event.note, self.context.now()) {
                let kind = EventKind::of(event.warning);
                let note = event.note.clone();
                self.context.events.record(kind, reference(job), event.reason, note);
            }
        }
    }

    /// Writes the status if it is another. Of this very job: one that was made anew in the meantime has another version.
    async fn write_status(
        &self,
        job: &mut TrainJob,
        outcome: &Outcome,
        state: &mut JobState,
    ) -> Result<(), TrainJobError> {
        let Some(mut patch) = outcome.status_patch(job) else { return Ok(()) };
        patch["metadata"] = json!({"resourceVersion": job.metadata.resource_version});
        let writer = &self.context.writer;
        let api = writer.namespaced::<Job>(&self.key.namespace);
        match writer.merge_status(&api, &self.key.name, &patch).await {
            Ok(answer) => {
                self.controller.metrics.objects.wrote("status", TRAIN_JOB);
                let conditions = |job: &TrainJob| -> Vec<(String, String)> {
                    let status = job.status.iter().flat_map(|status| &status.conditions);
                    status.map(|it| (it.type_.clone(), it.status.clone())).collect()
                };
                let before = conditions(job);
                job.status = outcome.status.clone();
                if conditions(job) != before {
                    let now = format!("{:?}", conditions(job));
                    tracing::info!(job = %self.key, state = now, "a TrainJob's conditions have changed");
                }
                state.patched(answer.object(), self.context.now());
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(TrainJobError::write(&error)),
        }
    }

    /// Deletes the JobSet of a job whose time is over.
    async fn delete_job_set(
        &self,
        job: &TrainJob,
        state: &mut JobState,
    ) -> Result<(), TrainJobError> {
        let owned = &self.controller.caches.owned;
        let Some(kind) = owned.id(JOB_SET.0, JOB_SET.1) else { return Ok(()) };
        let at = (kind, job.name().to_owned());
        let found = owned.metadata(kind, &self.key.namespace, job.name());
        let Some(found) = found.filter(|found| {
            let uid = found.uid.as_deref().unwrap_or_default();
            found.deletion_timestamp.is_none()
                && !state.objects.is_deleted(&at, uid)
                && controller(found).is_some_and(|owner| owner.uid == job.uid())
        }) else {
            return Ok(());
        };
        let writer = &self.context.writer;
        let resource = resource(JOB_SET.0, JOB_SET.1);
        let api = writer.dynamic(&resource, Some(&self.key.namespace));
        let only = Preconditions { uid: found.uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match writer.delete(&api, job.name(), &params).await {
            Ok(()) => {
                self.controller.metrics.objects.wrote("delete", JOB_SET.1);
                let uid = found.uid.unwrap_or_default();
                state.objects.deleted(at, &uid, self.context.now());
                Ok(())
            }
            Err(error) => Err(TrainJobError::write(&error)),
        }
    }
}

/// A job, as events name it.
fn reference(job: &TrainJob) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(TRAIN_JOB.to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// A kind as metrics name it.
fn known(kind: &str) -> &'static str {
    ["ConfigMap", "Secret", "JobSet", "PodGroup"]
        .into_iter()
        .find(|known| *known == kind)
        .unwrap_or("other")
}
