//! One pass over a TrainJob: what is to be applied, and what its status is then.
//!
//! ```text
//!   TrainJob, runtime, what is there, now ──plan──▶ objects, in order, or why there are none
//!                                            │
//!                          the coordinator applies them
//!                                            │
//!                                          settle──▶ status, events, when to look again, what to delete
//! ```
//!
//! [`reconcile`] is both, for writes that succeed. After a write that fails, [`Pass::settle`] is called with its error, and
//! what it says counts instead. The same input always gives the same outcome, and a pass over what a pass has made has
//! nothing to do.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::names::JOB_SET_API;
use muster_api::{TrainJob, TrainJobStatus};
use serde_json::{Value, json};

use crate::conditions::{self, COMPLETE, FAILED, SUSPENDED, Wanted, reason};
use crate::event::Event;
use crate::info::Info;
use crate::plugin::{Context, Fault};
use crate::registry::Registry;
use crate::runtime::{Runtime, RuntimeKind, Runtimes};
use crate::snapshot;

/// What a pass is given.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// The job as it is.
    pub job: &'a TrainJob,
    /// What a plugin may know.
    pub context: Context<'a>,
    /// The plugins.
    pub registry: &'a Registry,
    /// Runtimes that were read before.
    pub runtimes: &'a Runtimes,
    /// The time.
    pub now: Timestamp,
}

/// What is to be applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Objects to be applied, in this order; the first that fails stops the rest. Some are [made once](Registry::is_made_once).
    pub apply: Vec<Value>,
    /// Why there are none, or not all.
    pub error: Option<String>,
}

/// What came of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Objects to be applied first, in this order, with field manager `trainer` and force.
    pub apply: Vec<Value>,
    /// The status, if it is another than the job has.
    pub status: Option<TrainJobStatus>,
    /// Events to be told.
    pub events: Vec<Event>,
    /// When to look again, if nothing else happens.
    pub requeue: Option<Duration>,
    /// Whether the job's JobSet is to be deleted, if it is there: the job's time is over.
    pub delete_job_set: bool,
    /// Why the pass must be repeated, with back-off.
    pub error: Option<String>,
}

/// One pass, for writes that succeed.
pub fn reconcile(pass: &Pass<'_>) -> Outcome {
    let plan = pass.plan();
    let mut outcome = pass.settle(&plan, None);
    outcome.apply = plan.apply;
    outcome
}

// === impl Pass ===

impl Pass<'_> {
    /// What is to be applied.
    pub fn plan(&self) -> Plan {
        let job = self.job;
        if job.is_foreign() || is_finished(job) || RuntimeKind::of(&job.spec.runtime_ref).is_none()
        {
            return Plan::default();
        }
        let (runtime, kept) = match self.runtime() {
            Ok(found) => found,
            Err(fault) => return Plan { apply: Vec::new(), error: Some(fault.0) },
        };
        // The snapshot is kept even if the rest cannot be made.
        let mut apply = Vec::from_iter(kept);
        match self.objects(&runtime) {
            Ok(objects) => {
                apply.extend(objects);
                Plan { apply, error: None }
            }
            Err(fault) => Plan { apply, error: Some(fault.0) },
        }
    }

    /// The objects of the job, without its snapshot.
    pub fn objects(&self, runtime: &Arc<Runtime>) -> Result<Vec<Value>, Fault> {
        let mut info = Info::new(runtime, self.job);
        self.registry.enforce(&self.context, &mut info, self.job)?;
        self.registry.build(&self.context, &info, self.job)
    }

    /// The job's runtime: the one that was kept for it, else as it is now, together with the snapshot to keep it by.
    pub fn runtime(&self) -> Result<(Arc<Runtime>, Option<Value>), Fault> {
        let (job, cluster) = (self.job, self.context.cluster);
        if let Some(kept) = cluster.snapshot(job.namespace(), &snapshot::name(job)) {
            let runtime = snapshot::read(job, &kept, self.runtimes).map_err(|error| {
                Fault::new(format!("getting runtime snapshot: invalid runtime snapshot: {error}"))
            })?;
            return Ok((runtime, None));
        }
        let reference = &job.spec.runtime_ref;
        let Some(kind) = RuntimeKind::of(reference) else {
            return Err(Fault::new(format!("unsupported runtime: {}", reference.key())));
        };
        let runtime = cluster.runtime(kind, job.namespace(), &reference.name).ok_or_else(|| {
            Fault::new(format!(
                "not found {} specified in TrainJob: {}",
                kind.kind(),
                missing(kind, &reference.name)
            ))
        })?;
        let keep = snapshot::build(job, &runtime).map_err(Fault)?;
        Ok((runtime, Some(keep)))
    }

    /// What follows a plan. `failure` is what the API server said to the object that could not be applied.
    pub fn settle(&self, plan: &Plan, failure: Option<&str>) -> Outcome {
        let job = self.job;
        let mut outcome = Outcome::default();
        if job.is_foreign() {
            return outcome;
        }
        let old = job.status.clone().unwrap_or_default();
        let mut status = old.clone();
        let mut errors = Vec::new();
        if let Some(error) = failure.or(plan.error.as_deref()) {
            outcome.events.push(Event::creation_failed(error));
            errors.push(error.to_owned());
        }
        let known = RuntimeKind::of(&job.spec.runtime_ref).is_some();
        if !known {
            let message = format!("unsupported runtime: {}", job.spec.runtime_ref.key());
            self.fail(&mut status, reason::RUNTIME_NOT_SUPPORTED, &message);
        }
        self.suspend(&mut status);
        if known {
            let made = failure.is_none() && plan.apply.iter().any(is_job_set);
            match self.workload_status(&status, made) {
                Ok(Some(found)) => status = found,
                Ok(None) => {}
                Err(fault) => errors.push(fault.0),
            }
        }
        self.deadline(&mut status, &mut outcome);
        // Each time, so that a restart after the status was written leaves nothing running.
        outcome.delete_job_set = status
            .condition(FAILED)
            .is_some_and(|it| it.status == "True" && it.reason == reason::DEADLINE_EXCEEDED);
        outcome.status = (status != old).then_some(status);
        outcome.error = (!errors.is_empty()).then(|| errors.join("\n"));
        outcome
    }

    /// The status as the workload says, but a deadline that is over stays over.
    fn workload_status(
        &self,
        status: &TrainJobStatus,
        made: bool,
    ) -> Result<Option<TrainJobStatus>, Fault> {
        let mut job = self.job.clone();
        job.status = Some(status.clone());
        let Some(mut found) = self.registry.status(&self.context, &job, made)? else {
            return Ok(None);
        };
        let late = |status: &TrainJobStatus| {
            status.condition(FAILED).filter(|c| c.reason == reason::DEADLINE_EXCEEDED).cloned()
        };
        if let (Some(kept), Some(now)) =
            (late(status), found.conditions.iter_mut().find(|c| c.type_ == FAILED))
        {
            *now = kept;
        }
        Ok(Some(found))
    }

    fn suspend(&self, status: &mut TrainJobStatus) {
        let holds = self.job.is_suspended();
        let (reason, message) = match holds {
            true => (reason::SUSPENDED, "TrainJob is suspended"),
            false if status.is(SUSPENDED) => (reason::RESUMED, "TrainJob is resumed"),
            false => return,
        };
        let wanted = Wanted { kind: SUSPENDED, holds, reason, message, since: self.second() };
        conditions::set(&mut status.conditions, &wanted);
    }

    fn fail(&self, status: &mut TrainJobStatus, reason: &str, message: &str) {
        let wanted = Wanted { kind: FAILED, holds: true, reason, message, since: self.second() };
        conditions::set(&mut status.conditions, &wanted);
    }

    fn deadline(&self, status: &mut TrainJobStatus, outcome: &mut Outcome) {
        let seconds = self.job.spec.active_deadline_seconds.unwrap_or_default();
        if seconds <= 0 || finished(status) || self.job.is_suspended() {
            return;
        }
        let created = self.job.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let resumed = status.condition(SUSPENDED).filter(|c| c.status == "False");
        let Some(start) = resumed.map(|c| c.last_transition_time.0).or(created) else { return };
        let Ok(end) = start.checked_add(SignedDuration::from_secs(seconds)) else { return };
        if self.now > end {
            let message = "TrainJob exceeded its active deadline";
            self.fail(status, reason::DEADLINE_EXCEEDED, message);
            return;
        }
        let left = Duration::try_from(end.duration_since(self.now)).unwrap_or_default();
        outcome.requeue = Some(left.max(Duration::from_secs(1)));
    }

    /// Kubernetes counts in seconds.
    fn second(&self) -> Timestamp {
        Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)
    }
}

// === impl Outcome ===

impl Outcome {
    /// The merge patch of the status subresource that makes the old status the new one; none if nothing changes. It names only
    /// what changes, so that who reports progress at the same time loses nothing.
    pub fn status_patch(&self, job: &TrainJob) -> Option<Value> {
        let new = self.status.as_ref()?;
        let old = job.status.clone().unwrap_or_default();
        let mut patch = serde_json::Map::new();
        if new.conditions != old.conditions {
            patch.insert("conditions".to_owned(), json!(new.conditions));
        }
        if new.jobs_status != old.jobs_status {
            let jobs = match new.jobs_status.is_empty() {
                true => Value::Null,
                false => json!(new.jobs_status),
            };
            patch.insert("jobsStatus".to_owned(), jobs);
        }
        (!patch.is_empty()).then(|| json!({"status": patch}))
    }
}

/// Whether a job has come to its end.
pub fn is_finished(job: &TrainJob) -> bool {
    job.status.as_ref().is_some_and(finished)
}

fn finished(status: &TrainJobStatus) -> bool {
    status.is(COMPLETE) || status.is(FAILED)
}

/// That a runtime is not there, as the API server says it.
pub(crate) fn missing(kind: RuntimeKind, name: &str) -> String {
    format!("{}.{} {name:?} not found", kind.plural(), muster_api::names::GROUP)
}

fn is_job_set(object: &Value) -> bool {
    object["apiVersion"] == JOB_SET_API && object["kind"] == "JobSet"
}
