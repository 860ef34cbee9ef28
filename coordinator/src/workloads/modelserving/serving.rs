//! One reconcile of a ModelServing: it tells the machine what has happened, asks it for a plan, and applies the steps.

mod apply;
mod error;
mod state;
mod tables;

use std::sync::Arc;

use muster_modelserving::api::ModelServing;
use muster_modelserving::machine::Event;
use muster_modelserving::seen::Seen;
use muster_modelserving::step::Later;
use muster_modelserving::store::GroupState;
use muster_runtime::reconciler::{Context, Requeue};
use muster_runtime::writer::WriteError;
use tokio::time::Instant;

use super::Key;
use super::controller::ModelServings;
use super::observed::{OwnedChange, OwnedObject};
use super::table_mutator::TableMutator;
use super::view::ServingStatus;
use error::Cause;
pub use error::ServingError;
use state::Requested;
pub use state::ServingState;

/// A reconcile at work.
pub struct Reconcile<'a> {
    pub controller: &'a ModelServings,
    pub context: &'a Context,
    pub key: &'a Key,
    pub state: &'a mut ServingState,
}

// === impl Reconcile ===

impl Reconcile<'_> {
    /// Reconciles, and says when it is due again.
    pub async fn run(mut self) -> Result<Requeue, ServingError> {
        let result = self.reconcile().await;
        if let Err(cause) = &result {
            // The next reconcile plans, whatever wakes it.
            self.state.requested = None;
            self.state.plan_at = None;
            if cause.is_lasting() {
                self.state.failure = Some(cause.to_string());
            }
        }
        self.show();
        let now = self.context.now();
        let due = self.state.due(now).map(|at| at.saturating_duration_since(now));
        match result {
            Ok(()) => Ok(Requeue::after(due)),
            Err(cause) => Err(ServingError { cause, timer: due }),
        }
    }

    async fn reconcile(&mut self) -> Result<(), Cause> {
        let now = self.context.now();
        for (name, uid) in self.state.observed.overdue(now) {
            let is_there = self.is_there(&name, &uid).await?;
            self.state.observed.asked(&name, is_there, now);
        }
        let owned = self.controller.owned(self.key);
        let changes = self.state.observed.observe(&self.controller.caches, self.key, owned, now);
        self.state.happened.extend(changes);
        let Some(serving) = self.read() else { return Ok(()) };
        let requested = Requested::of(&serving);
        let surroundings = self.controller.surroundings();
        let mut plan = self.state.requested.as_ref() != Some(&requested)
            || self.state.surroundings != surroundings;
        plan |= self.tell_machine(&serving, now).await?;
        plan |= self.state.plan_at.is_some_and(|at| at <= now);
        let (templates, injection) =
            (&self.controller.caches.templates, &self.controller.injection);
        let mutator = TableMutator::of(&serving, self.key.shape, templates, injection);
        if !plan {
            return Ok(self.report_tables(&mutator).await?);
        }
        self.state.plan_at = None;
        self.state.requested = Some(requested);
        self.state.surroundings = surroundings;
        let stuck = self.plan(&serving, &mutator).await?;
        self.report_tables(&mutator).await?;
        match stuck {
            Some(why) => Err(Cause::Plan(why)),
            None => {
                self.state.failure = None;
                Ok(())
            }
        }
    }

    /// Tells the machine what has happened, and applies what it answers. Whether a plan is due.
    async fn tell_machine(
        &mut self,
        serving: &ModelServing,
        now: Instant,
    ) -> Result<bool, WriteError> {
        let state = &mut *self.state;
        let is_changed = state.spec.as_ref() != Some(&serving.spec);
        let is_due = state.timers.iter().any(|(at, _)| *at <= now);
        if state.is_restored && state.happened.is_empty() && !is_changed && !is_due {
            return Ok(false);
        }
        let happened = std::mem::take(&mut state.happened);
        let api = self.controller.caches.pod_group_api();
        let seen = state.observed.seen(serving, self.key.shape, api);
        let mut answers = Vec::new();
        if state.is_restored {
            if let Some(before) = state.spec.as_ref().filter(|_| is_changed) {
                answers.push(state.machine.hear(Event::SpecChanged(before), serving, &seen));
            }
            for event in happened.iter().filter_map(|change| event(change, &seen)) {
                answers.push(state.machine.hear(event, serving, &seen));
            }
        } else {
            state.is_restored = true;
            answers.push(state.machine.restore(serving, &seen).at_start());
        }
        let (due, timers): (Vec<_>, Vec<_>) =
            state.timers.drain(..).partition(|(at, _)| *at <= now);
        state.timers = timers;
        for (_, Later::GraceOver { pod, uid }) in &due {
            answers.push(state.machine.hear(Event::GraceOver { pod, uid }, serving, &seen));
        }
        state.spec = Some(serving.spec.clone());
        let (mut plan, mut result) = (false, Ok(false));
        for answer in answers {
            plan |= answer.reconcile;
            let timers = answer.later.into_iter().map(|(after, what)| (now + after, what));
            self.state.timers.extend(timers);
            if answer.steps.is_empty() {
                continue;
            }
            // What one of them cannot do does not keep the others from being done.
            let applied = self.apply_steps(&answer.steps).await;
            result = result.and(applied);
        }
        plan |= self.sweep(serving);
        result.map(|_| plan)
    }

    /// Makes a plan and applies its steps. Why it cannot go on, if it cannot.
    async fn plan(
        &mut self,
        serving: &ModelServing,
        mutator: &TableMutator,
    ) -> Result<Option<String>, WriteError> {
        let begun = self.context.now();
        let plan = {
            let api = self.controller.caches.pod_group_api();
            let seen = self.state.observed.seen(serving, self.key.shape, api);
            self.state.machine.plan(serving, &seen, mutator, self.context.timestamp())
        };
        self.controller.metrics.planned(self.context.now().saturating_duration_since(begun));
        let is_taken = self.apply_steps(&plan.steps).await?;
        let swept = self.sweep(serving);
        if plan.error.is_some() {
            return Ok(plan.error);
        }
        if is_taken {
            return Ok(Some("something else has a name that is needed".to_owned()));
        }
        let now = self.context.now();
        self.state.plan_at = plan.later.map(|after| now + after);
        if plan.again || swept {
            // Through the queue: somebody may have changed the object, or want us to end.
            self.state.plan_at = Some(now);
        }
        Ok(None)
    }

    fn sweep(&mut self, serving: &ModelServing) -> bool {
        let api = self.controller.caches.pod_group_api();
        let seen = self.state.observed.seen(serving, self.key.shape, api);
        self.state.machine.sweep(&seen)
    }

    /// The object in the one form that is worked on; none if it cannot be read, which is said once.
    fn read(&mut self) -> Option<Arc<ModelServing>> {
        let state = &mut *self.state;
        let version = state.object.version();
        if let Some((_, serving)) = state.read.as_ref().filter(|(read, _)| read == version) {
            return Some(serving.clone());
        }
        match state.object.read() {
            Ok(serving) => {
                let serving = Arc::new(serving);
                state.unreadable = None;
                state.read = Some((version.to_owned(), serving.clone()));
                Some(serving)
            }
            Err(error) => {
                let error = error.to_string();
                if state.unreadable.as_ref() != Some(&error) {
                    tracing::warn!(serving = %self.key, reason = "unreadable", "{error}");
                    state.unreadable = Some(error.clone());
                    self.warn("Unreadable", error);
                }
                None
            }
        }
    }

    fn warn(&self, reason: &'static str, message: String) {
        self.context.events.warning(self.state.object.reference(), reason, message);
    }

    /// Shows it on the status page as it is now.
    fn show(&self) {
        let state = &*self.state;
        let groups = state.machine.store().groups().iter();
        let wanted = state.spec.as_ref().map_or(0, |spec| spec.replicas.unwrap_or_default());
        let error = state.table_error.as_ref().map(|error| &error.message);
        let trouble = state.unreadable.as_ref().or(error).or(state.failure.as_ref());
        let status = ServingStatus {
            groups: usize::try_from(wanted).unwrap_or_default(),
            ready_groups: groups.filter(|group| group.state == GroupState::Running).count(),
            pods: state.observed.live_pods().count(),
            trouble: trouble.or(state.status.trouble.as_ref()).cloned(),
            ..state.status.clone()
        };
        self.controller.view.set(self.key, &status);
    }
}

/// What the machine is told of a change.
fn event<'a>(change: &'a OwnedChange, seen: &Seen<'_>) -> Option<Event<'a>> {
    Some(match change {
        OwnedChange::Pod(pod) => Event::PodChanged(seen.read_pod(pod)),
        OwnedChange::Gone(OwnedObject::Pod(pod)) => Event::PodGone(seen.read_pod(pod)),
        OwnedChange::Gone(OwnedObject::Service(service)) => Event::ServiceGone(&service.metadata),
        OwnedChange::Gone(OwnedObject::PodGroup(group)) => Event::PodGroupGone(&group.metadata),
        OwnedChange::Gone(OwnedObject::Revision(_)) => return None,
    })
}
