//! One task per ModelServing: it hears what has happened, asks the machine, and does what it says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_modelserving::api::{ModelServing, Spec};
use muster_modelserving::machine::{Event, Machine};
use muster_modelserving::step::Later;
use muster_modelserving::store::GroupState;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::adorn::{Dress, Trouble};
use super::follow::Course;
use super::known::{Happened, Known};
use super::pokes::{Pending, Pokes};
use super::shown::ServingStatus;
use super::written::Written;
use super::{Key, Outlets, Sources, metrics};
use crate::watch::is_newer;
use crate::write::WriteError;

mod tables;

/// The first wait after a failure; each next one is twice as long.
const AGAIN: Duration = Duration::from_millis(250);

/// The longest.
const AGAIN_MOST: Duration = Duration::from_secs(30);

/// One ModelServing and all that is known of it.
pub struct Keeper {
    key: Key,
    sources: Sources,
    outlets: Outlets,
    machine: Machine,
    known: Known,
    /// The newest version that was seen.
    written: Written,
    /// What is to be heard later.
    later: Vec<(Instant, Later)>,
    /// The spec that was looked at last.
    spec: Option<Spec>,
    /// A look is due, whatever happens.
    plan_at: Option<Instant>,
    /// How often in a row something failed.
    failures: u32,
    /// Whether the machine has learned from what was there at the start.
    restored: bool,
    /// What has happened and was not told to the machine yet.
    happened: Vec<Happened>,
    /// What was asked for when the last plan was made.
    asked: Option<Asked>,
    /// The object as it was read last, and of which version.
    read: Option<(String, Arc<ModelServing>)>,
    stop: CancellationToken,
    /// What was said about rank tables, to say it once.
    said: Option<Trouble>,
    unreadable: Option<String>,
    /// Why the last plan was not followed to its end.
    error: Option<String>,
    /// What is shown of it.
    shown: ServingStatus,
}

/// What a person asks for: with the same, nothing is to be planned anew.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    generation: Option<i64>,
    annotations: Option<BTreeMap<String, String>>,
    going: bool,
}

// === impl Asked ===

impl Asked {
    fn of(serving: &ModelServing) -> Self {
        let metadata = &serving.metadata;
        Self {
            generation: metadata.generation,
            annotations: metadata.annotations.clone(),
            going: metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl Keeper ===

impl Keeper {
    /// For a ModelServing that is there.
    pub fn new(
        key: Key,
        written: Written,
        sources: Sources,
        outlets: Outlets,
        stop: CancellationToken,
    ) -> Self {
        Self {
            machine: Machine::new(key.shape),
            shown: ServingStatus::new(&key),
            key,
            sources,
            outlets,
            known: Known::default(),
            written,
            later: Vec::new(),
            spec: None,
            plan_at: None,
            failures: 0,
            restored: false,
            happened: Vec::new(),
            asked: None,
            read: None,
            stop,
            said: None,
            unreadable: None,
            error: None,
        }
    }

    /// Looks after it until it is gone, or until stopped. Whether this coordinator may still write.
    pub async fn run(mut self, pokes: Pokes) -> bool {
        let stop = self.stop.clone();
        loop {
            let pending = pokes.take();
            match self.sources.written(&self.key) {
                // Another of the same name is another one.
                Some(now) if now.metadata().uid != self.written.metadata().uid => return true,
                None => return true,
                Some(now) if is_newer(now.version(), self.written.version()) => self.written = now,
                Some(_) => {}
            }
            match self.look(pending).await {
                Ok(()) => {}
                Err(WriteError::Deposed(deposed)) => {
                    tracing::warn!("{deposed}");
                    return false;
                }
                Err(error) => self.failed(&error),
            }
            self.show();
            let due = self.due();
            tokio::select! {
                () = stop.cancelled() => return true,
                () = pokes.news() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    /// One look: what has happened, then a plan, if anything calls for one.
    async fn look(&mut self, pending: Pending) -> Result<(), WriteError> {
        let now = Instant::now();
        let mut names = pending.things;
        for (thing, name, uid) in self.known.doubtful(now) {
            let there = self.course().is_there(thing, &name, &uid).await?;
            self.known.answered(thing, &name, there);
            names.insert((thing, name));
        }
        for (thing, name) in &names {
            self.known.look(&self.sources, &self.key, *thing, name, &mut self.happened);
        }
        let Some(serving) = self.serving() else { return Ok(()) };
        let asked = Asked::of(&serving);
        let mut plan = pending.plan || self.asked.as_ref() != Some(&asked);
        plan |= self.hear(&serving, now).await?;
        if self.plan_at.is_some_and(|at| at <= now) {
            plan = true;
        }
        let dress =
            Dress::of(&serving, self.key.shape, &self.sources.templates, &self.outlets.injection);
        // After a failure comes a pause, whatever happens in the meantime; but not if somebody asks for something else.
        let pause = self.failures > 0
            && self.asked.as_ref() == Some(&asked)
            && self.plan_at.is_some_and(|at| at > now);
        if plan && !pause {
            self.plan_at = None;
            self.asked = Some(asked);
            let stuck = self.plan(&serving, &dress).await?;
            self.tables(&dress).await?;
            if !stuck {
                self.failures = 0;
                self.error = None;
            }
        } else {
            self.tables(&dress).await?;
        }
        Ok(())
    }

    /// Tells the machine what has happened. Whether a plan is due.
    async fn hear(&mut self, serving: &ModelServing, now: Instant) -> Result<bool, WriteError> {
        let changed = self.spec.as_ref() != Some(&serving.spec);
        let due = self.later.iter().any(|(at, _)| *at <= now);
        if self.restored && self.happened.is_empty() && !changed && !due {
            return Ok(false);
        }
        let api = self.sources.pod_group_api();
        let mut heard = Vec::new();
        let happened = std::mem::take(&mut self.happened);
        {
            let seen = self.known.seen(serving, self.key.shape, api);
            if !self.restored {
                self.restored = true;
                heard.push(self.machine.restore(serving, &seen).at_start());
            } else {
                if let Some(before) = self.spec.as_ref().filter(|_| changed) {
                    let event = Event::SpecChanged(before);
                    heard.push(self.machine.hear(event, serving, &seen));
                }
                for one in &happened {
                    let event = match one {
                        Happened::PodChanged(pod) => Event::PodChanged(seen.read_pod(pod)),
                        Happened::PodGone(pod) => Event::PodGone(seen.read_pod(pod)),
                        Happened::ServiceGone(service) => Event::ServiceGone(&service.metadata),
                        Happened::PodGroupGone(group) => Event::PodGroupGone(&group.metadata),
                    };
                    heard.push(self.machine.hear(event, serving, &seen));
                }
            }
            let (due, later) = self.later.drain(..).partition(|(at, _)| *at <= now);
            self.later = later;
            let due: Vec<(Instant, Later)> = due;
            for (_, Later::GraceOver { pod, uid }) in &due {
                let event = Event::GraceOver { pod, uid };
                heard.push(self.machine.hear(event, serving, &seen));
            }
        }
        self.spec = Some(serving.spec.clone());
        let (mut plan, mut result) = (false, Ok(false));
        for one in heard {
            plan |= one.reconcile;
            self.later.extend(one.later.into_iter().map(|(after, what)| (now + after, what)));
            if one.steps.is_empty() {
                continue;
            }
            // What one of them cannot do does not keep the others from being done.
            let followed = self.course().follow(&one.steps).await;
            result = result.and(followed);
        }
        plan |= self.swept(serving);
        result.map(|_| plan)
    }

    /// One plan, and what it says. Whether it cannot go on.
    async fn plan(&mut self, serving: &ModelServing, dress: &Dress) -> Result<bool, WriteError> {
        let begun = Instant::now();
        let api = self.sources.pod_group_api();
        let plan = {
            let seen = self.known.seen(serving, self.key.shape, api);
            self.machine.plan(serving, &seen, dress, Timestamp::now())
        };
        self.outlets.metrics.looked(begun.elapsed());
        let taken = self.course().follow(&plan.steps).await?;
        let swept = self.swept(serving);
        if let Some(error) = plan.error {
            self.stuck(&error, dress);
            return Ok(true);
        }
        if taken {
            self.stuck("something else has a name that is needed", dress);
            return Ok(true);
        }
        let now = Instant::now();
        self.plan_at = plan.later.map(|after| now + after);
        if plan.again || swept {
            // Through the loop: somebody may have changed the object, or want us to end.
            self.plan_at = Some(now);
        }
        Ok(false)
    }

    fn swept(&mut self, serving: &ModelServing) -> bool {
        let api = self.sources.pod_group_api();
        let seen = self.known.seen(serving, self.key.shape, api);
        self.machine.sweep(&seen)
    }

    /// The object in the one form that is worked on; none if it cannot be read, which is said once.
    fn serving(&mut self) -> Option<Arc<ModelServing>> {
        if let Some((version, serving)) = &self.read
            && version == self.written.version()
        {
            return Some(serving.clone());
        }
        match self.written.read() {
            Ok(serving) => {
                let serving = Arc::new(serving);
                self.unreadable = None;
                self.read = Some((self.written.version().to_owned(), serving.clone()));
                Some(serving)
            }
            Err(error) => {
                self.cannot_read(&error.to_string());
                None
            }
        }
    }

    fn course(&mut self) -> Course<'_> {
        Course {
            key: &self.key,
            written: &mut self.written,
            machine: &mut self.machine,
            known: &mut self.known,
            outlets: &self.outlets,
            stop: &self.stop,
        }
    }

    /// A write has failed: the next look waits.
    fn failed(&mut self, error: &WriteError) {
        if !matches!(error, WriteError::Conflict { .. } | WriteError::Gone { .. }) {
            tracing::warn!(serving = %self.key, reason = error.reason(), "{error}");
            self.error = Some(error.to_string());
        }
        self.back_off();
    }

    /// A plan cannot go on. What rank tables lack is said elsewhere, once.
    fn stuck(&mut self, error: &str, dress: &Dress) {
        let metrics = &self.outlets.metrics;
        metrics.errors.get_or_create(&metrics::Reason { reason: "plan" }).inc();
        if dress.trouble().is_none() {
            tracing::warn!(serving = %self.key, reason = "plan", "{error}");
            self.error = Some(error.to_owned());
        }
        self.back_off();
    }

    fn back_off(&mut self) {
        let wait = AGAIN.saturating_mul(1 << self.failures.min(10)).min(AGAIN_MOST);
        self.failures = self.failures.saturating_add(1);
        self.plan_at = Some(Instant::now() + wait);
    }

    fn cannot_read(&mut self, error: &str) {
        if self.unreadable.as_deref() == Some(error) {
            return;
        }
        self.unreadable = Some(error.to_owned());
        tracing::warn!(serving = %self.key, reason = "unreadable", "{error}");
        self.warn("Unreadable", error.to_owned());
    }

    fn warn(&self, reason: &'static str, message: String) {
        self.outlets.voice.warning(self.written.reference(), reason, message);
    }

    /// Puts it on the status page as it is now.
    fn show(&self) {
        let groups = self.machine.store().groups().iter();
        let wanted = self.spec.as_ref().map_or(0, |spec| spec.replicas.unwrap_or_default());
        let told = self.unreadable.as_ref().or(self.said.as_ref().map(|said| &said.message));
        let told = told.or(self.error.as_ref()).or(self.shown.trouble.as_ref()).cloned();
        let status = ServingStatus {
            groups: usize::try_from(wanted).unwrap_or_default(),
            ready_groups: groups.filter(|group| group.state == GroupState::Running).count(),
            pods: self.known.live_pods().count(),
            trouble: told,
            ..self.shown.clone()
        };
        self.outlets.shown.set(&self.key, &status);
    }

    /// When the next look is due without anything happening.
    fn due(&self) -> Option<Instant> {
        let later = self.later.iter().map(|(at, _)| *at);
        later.chain(self.plan_at).chain(self.known.doubt_at()).min()
    }
}

pub(super) async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
