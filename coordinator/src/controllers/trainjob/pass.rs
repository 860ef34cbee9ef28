//! One look at a TrainJob: decide, apply what differs, write the status, delete what is late.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, Preconditions};
use muster_api::TrainJob;
use muster_api::names::{API_VERSION, FIELD_MANAGER, JOB_SET_API, TRAIN_JOB};
use muster_pipeline::cluster::Cluster as _;
use muster_pipeline::conditions::{FAILED, reason};
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::{Outcome, Pass, Plan, is_made_once};
use muster_pipeline::snapshot;
use rand::RngCore as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kinds::{Job, Thing, Written as _, controller, resource};
use super::queue::Next;
use super::shown::JobLine;
use super::view::{Asked, BELIEVED, Kept, View, identity};
use super::{Key, Outlets, Sources};
use crate::write::WriteError;

/// Who looks at one job.
pub struct Looker {
    /// The caches.
    pub sources: Sources,
    /// Writes.
    pub outlets: Outlets,
    /// The job.
    pub key: Key,
    /// How often anything has changed that is no job's.
    pub surroundings: u64,
}

/// What came of a look.
pub struct Looked {
    /// What is remembered.
    pub kept: Kept,
    /// What comes next; none if we may not write any more.
    pub next: Option<Next>,
}

/// This coordinator does not lead any more.
struct Deposed;

/// How far a plan was followed.
enum Applied {
    /// To its end.
    All,
    /// Something that is made once was there, unseen; it is known now, and the plan may be another.
    WasThere,
    /// Until this went wrong.
    Not(String),
}

/// A job has no more objects that are made once.
const MOST_SURPRISES: usize = 3;

// === impl Looker ===

impl Looker {
    /// Looks once.
    pub async fn look(self, mut kept: Kept) -> Looked {
        let next = self.pass(&mut kept).await.ok();
        Looked { kept, next }
    }

    async fn pass(&self, kept: &mut Kept) -> Result<Next, Deposed> {
        kept.tidy(&self.sources, &self.key, Instant::now());
        // Most changes are echoes of our own writes.
        if kept.is_settled(&self.sources, &self.key, self.surroundings) {
            return Ok(Next::Done(kept.waits().then_some(BELIEVED)));
        }
        kept.unsettle();
        let Some(object) = kept.job(&self.sources, &self.key) else { return Ok(Next::Gone) };
        let mut job: TrainJob = match serde_json::from_value(object) {
            Ok(job) => job,
            Err(error) => {
                let key = &self.key;
                tracing::warn!(job = %key, reason = "unreadable", "a TrainJob cannot be read: {error}");
                self.outlets.metrics.failed("unreadable");
                return Ok(Next::Done(None));
            }
        };
        // What is being deleted gets nothing new; whoever deletes takes the rest away.
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done(None));
        }
        let now = Timestamp::now();
        let asked = Asked::default();
        // Whether it is late is looked at below, whatever the plan asks for.
        self.view(kept, &asked).ask(Thing::JobSet, &self.key.name);
        let begun = Instant::now();
        let mut plan = self.decide(&job, (kept, &asked), now, |pass| pass.plan());
        let mut thought = begun.elapsed();
        if plan.apply.iter().any(|object| is_snapshot(&job, object))
            && let Some(left) = kept.snapshot.remaining(job.uid(), Instant::now())
        {
            return Ok(Next::Done(Some(left)));
        }
        for (api_version, kind, name) in plan.apply.iter().map(identity) {
            if let Some(thing) = Thing::of(api_version, kind) {
                self.view(kept, &asked).ask(thing, name);
            }
        }
        let mut applied = self.apply(&job, &plan, kept).await?;
        for _ in 0..MOST_SURPRISES {
            if !matches!(applied, Applied::WasThere) {
                break;
            }
            plan = self.decide(&job, (kept, &asked), now, |pass| pass.plan());
            applied = self.apply(&job, &plan, kept).await?;
        }
        let kept_runtime = self.view(kept, &asked).snapshot(job.namespace(), &snapshot::name(&job));
        if kept_runtime.is_some_and(|found| found.controller.as_deref() == Some(job.uid())) {
            kept.snapshot.seen(job.uid());
        }
        let failure = match applied {
            Applied::All => None,
            Applied::WasThere => Some("objects of this job come and go".to_owned()),
            Applied::Not(error) => Some(error),
        };
        let begun = Instant::now();
        let settle = |pass: &Pass<'_>| pass.settle(&plan, failure.as_deref());
        let outcome = self.decide(&job, (kept, &asked), now, settle);
        thought += begun.elapsed();
        self.outlets.metrics.looked(thought);
        let mut trouble = outcome.error.clone();
        self.say(&job, &outcome, kept);
        if let Err(error) = self.status(&mut job, &outcome, kept).await? {
            trouble = Some(error);
        }
        if let Err(error) = self.end_late(&job, kept).await? {
            trouble = Some(error);
        }
        self.outlets.shown.set(&self.key, JobLine::of(&job, trouble.clone()));
        if let Some(error) = trouble {
            tracing::debug!(job = %self.key, "cannot go on: {error}");
            self.outlets.metrics.failed("pass");
            return Ok(Next::Failed);
        }
        // What time alone changes is looked at again.
        if outcome.requeue.is_none() {
            kept.settle(job.metadata.resource_version.clone(), self.surroundings, asked);
        }
        let believed = kept.waits().then_some(BELIEVED);
        Ok(Next::Done(outcome.requeue.into_iter().chain(believed).min()))
    }

    fn decide<T>(
        &self,
        job: &TrainJob,
        (kept, asked): (&Kept, &Asked),
        now: Timestamp,
        ask: impl FnOnce(&Pass<'_>) -> T,
    ) -> T {
        let rules = &self.outlets.rules;
        let mut seed = [0u8; 64];
        rand::rng().fill_bytes(&mut seed);
        let keys = Keys { seed: Some(seed), curve_of_uid: false };
        let view = self.view(kept, asked);
        let context = Context { cluster: &view, settings: &rules.settings, keys: &keys };
        let (registry, runtimes) = (&rules.registry, &rules.runtimes);
        ask(&Pass { job, context, registry, runtimes, now })
    }

    fn view<'a>(&'a self, kept: &'a Kept, asked: &'a Asked) -> View<'a> {
        View { sources: &self.sources, kept, namespace: &self.key.namespace, asked }
    }

    /// Applies what differs, in order. Keys and the snapshot are created: what the watch has not shown yet, an earlier
    /// leader's or one whose answer was lost, is never replaced.
    async fn apply(
        &self,
        job: &TrainJob,
        plan: &Plan,
        kept: &mut Kept,
    ) -> Result<Applied, Deposed> {
        let writer = &self.outlets.writer;
        for wanted in &plan.apply {
            if self.view(kept, &Asked::default()).has(wanted) {
                continue;
            }
            let (api_version, kind, _) = identity(wanted);
            let resource = resource(api_version, kind);
            let client = writer.client().clone();
            let api = Api::namespaced_with(client, &self.key.namespace, &resource);
            let (verb, written) = if is_made_once(job, wanted) {
                let object = match serde_json::from_value(wanted.clone()) {
                    Ok(object) => object,
                    Err(error) => return Ok(Applied::Not(format!("{kind}: {error}"))),
                };
                ("create", writer.create_as(&api, FIELD_MANAGER, &object).await)
            } else {
                ("apply", writer.apply_raw(&api, FIELD_MANAGER, wanted).await)
            };
            match written {
                Ok(answer) => {
                    self.outlets.metrics.wrote(verb, known(kind));
                    let answer = serde_json::to_value(answer).unwrap_or_default();
                    kept.applied(wanted, answer, Instant::now());
                }
                Err(WriteError::Exists { .. }) => {
                    let (_, _, name) = identity(wanted);
                    match writer.look(&api, name).await {
                        Ok(Some(found)) => {
                            let found = serde_json::to_value(found).unwrap_or_default();
                            kept.applied(wanted, found, Instant::now());
                        }
                        Ok(None) => {}
                        Err(error) => return Ok(Applied::Not(self.failed(error)?)),
                    }
                    return Ok(Applied::WasThere);
                }
                Err(error) => return Ok(Applied::Not(self.failed(error)?)),
            }
        }
        Ok(Applied::All)
    }

    fn say(&self, job: &TrainJob, outcome: &Outcome, kept: &mut Kept) {
        for event in &outcome.events {
            if !kept.is_news(&event.note, Instant::now()) {
                continue;
            }
            let about = reference(job);
            match event.warning {
                true => self.outlets.voice.warning(about, event.reason, event.note.clone()),
                false => self.outlets.voice.normal(about, event.reason, event.note.clone()),
            }
        }
    }

    /// Writes the status if it is another. Of this very job: one that was made anew in the meantime has another version.
    async fn status(
        &self,
        job: &mut TrainJob,
        outcome: &Outcome,
        kept: &mut Kept,
    ) -> Result<Result<(), String>, Deposed> {
        let Some(mut patch) = outcome.status_patch(job) else { return Ok(Ok(())) };
        patch["metadata"] = json!({"resourceVersion": job.metadata.resource_version});
        let writer = &self.outlets.writer;
        let api: Api<Job> = Api::namespaced(writer.client().clone(), &self.key.namespace);
        match writer.merge_status(&api, &self.key.name, &patch).await {
            Ok(answer) => {
                self.outlets.metrics.wrote("status", TRAIN_JOB);
                let conditions = |job: &TrainJob| -> Vec<(String, String)> {
                    let status = job.status.iter().flat_map(|status| &status.conditions);
                    status.map(|it| (it.type_.clone(), it.status.clone())).collect()
                };
                let before = conditions(job);
                job.status = outcome.status.clone();
                if conditions(job) != before {
                    let state = format!("{:?}", conditions(job));
                    tracing::info!(job = %self.key, state, "a TrainJob's conditions have changed");
                }
                kept.patched(answer.object(), Instant::now());
                Ok(Ok(()))
            }
            Err(WriteError::Gone { .. }) => Ok(Ok(())),
            Err(error) => Ok(Err(self.failed(error)?)),
        }
    }

    /// Deletes the JobSet of a job whose time is over. Asked for each time, so that a restart after the status was written
    /// leaves nothing running.
    async fn end_late(
        &self,
        job: &TrainJob,
        kept: &mut Kept,
    ) -> Result<Result<(), String>, Deposed> {
        let late = job
            .status
            .as_ref()
            .and_then(|status| status.condition(FAILED))
            .is_some_and(|it| it.status == "True" && it.reason == reason::DEADLINE_EXCEEDED);
        if !late || job.is_foreign() {
            return Ok(Ok(()));
        }
        let found = self.sources.metadata(Thing::JobSet, &self.key.namespace, job.name());
        let Some(found) = found.filter(|found| {
            found.deletion_timestamp.is_none()
                && !kept.is_deleted(found.uid.as_deref())
                && controller(found).is_some_and(|owner| owner.uid == job.uid())
        }) else {
            return Ok(Ok(()));
        };
        let writer = &self.outlets.writer;
        let (client, resource) = (writer.client().clone(), resource(JOB_SET_API, "JobSet"));
        let api = Api::namespaced_with(client, &self.key.namespace, &resource);
        let only = Preconditions { uid: found.uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match writer.delete_raw(&api, "JobSet", job.name(), &params).await {
            Ok(()) => {
                self.outlets.metrics.wrote("delete", "JobSet");
                kept.deleted(job.name(), found.uid);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(self.failed(error)?)),
        }
    }

    /// What the API server said, for a person; or that we must stop.
    fn failed(&self, error: WriteError) -> Result<String, Deposed> {
        if matches!(error, WriteError::Deposed(_)) {
            return Err(Deposed);
        }
        self.outlets.metrics.failed(error.reason());
        Ok(error.to_string())
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

/// Whether an object is the snapshot of a job.
fn is_snapshot(job: &TrainJob, object: &Value) -> bool {
    let (_, kind, name) = identity(object);
    kind == "ConfigMap" && name == snapshot::name(job)
}

/// A kind as metrics name it.
fn known(kind: &str) -> &'static str {
    ["ConfigMap", "Secret", "JobSet", "PodGroup"]
        .into_iter()
        .find(|known| *known == kind)
        .unwrap_or("other")
}
