//! One task per ModelServing: it hears what has happened, asks the machine, and does what it says.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use muster_modelserving::api::{ModelServing, Spec};
use muster_modelserving::machine::{Event, Machine};
use muster_modelserving::step::Later;
use muster_modelserving::store::GroupState;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::adorn::{Dress, Trouble};
use super::follow::Course;
use super::known::{Happened, Known};
use super::pokes::{Pending, Pokes};
use super::shown::ServingStatus;
use super::tables::{self, Table};
use super::written::Written;
use super::{Key, Outlets, Sources, metrics, sizes};
use crate::controllers::ranktable::is_newer;
use crate::events::reason::GENERATION_FAILED;
use crate::names;
use crate::write::WriteError;

/// The first wait after a failure; each next one is twice as long.
const AGAIN: Duration = Duration::from_millis(250);

/// The longest.
const AGAIN_MOST: Duration = Duration::from_secs(30);

/// What we have made must have been in the cache by then.
const DOUBT: Duration = Duration::from_secs(5);

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
    doubt_at: Option<Instant>,
    failures: u32,
    /// What was said about rank tables, to say it once.
    said: Option<Trouble>,
    unreadable: Option<String>,
    /// Why the last plan was not followed to its end.
    error: Option<String>,
    /// What is shown of it.
    shown: ServingStatus,
}

// === impl Keeper ===

impl Keeper {
    /// For a ModelServing that is there.
    pub fn new(key: Key, written: Written, sources: Sources, outlets: Outlets) -> Self {
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
            doubt_at: None,
            failures: 0,
            said: None,
            unreadable: None,
            error: None,
        }
    }

    /// Looks after it until it is gone, or until stopped. Whether this coordinator may still write.
    pub async fn run(mut self, pokes: Pokes, stop: CancellationToken) -> bool {
        let mut first = true;
        loop {
            let pending = pokes.take();
            match self.sources.written(&self.key) {
                None => return true,
                Some(now) if is_newer(now.version(), self.written.version()) => self.written = now,
                Some(_) => {}
            }
            match self.look(pending, first).await {
                Ok(looked) => first &= !looked,
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

    /// One look: what has happened, then a plan, if anything calls for one. Whether the object could be read.
    async fn look(&mut self, pending: Pending, first: bool) -> Result<bool, WriteError> {
        let serving = match self.written.read() {
            Ok(serving) => serving,
            Err(error) => {
                self.cannot_read(&error.to_string());
                return Ok(false);
            }
        };
        self.unreadable = None;
        let now = Instant::now();
        let mut plan = pending.plan || first;
        let mut happened = Vec::new();
        let mut names = pending.things;
        if self.doubt_at.is_some_and(|at| at <= now) {
            self.doubt_at = None;
            names.extend(self.known.doubted());
        }
        for (thing, name) in &names {
            self.known.look(&self.sources, &self.key, *thing, name, &mut happened);
        }
        plan |= self.hear(&serving, happened, first, now).await?;
        if self.plan_at.is_some_and(|at| at <= now) {
            self.plan_at = None;
            plan = true;
        }
        let dress =
            Dress::of(&serving, self.key.shape, &self.sources.templates, &self.outlets.injection);
        if plan {
            self.plan(serving, &dress).await?;
        }
        self.tables(&dress).await?;
        if self.known.is_fresh() && self.doubt_at.is_none() {
            self.doubt_at = Some(Instant::now() + DOUBT);
        }
        Ok(true)
    }

    /// Tells the machine what has happened. Whether a plan is due.
    async fn hear(
        &mut self,
        serving: &ModelServing,
        happened: Vec<Happened>,
        first: bool,
        now: Instant,
    ) -> Result<bool, WriteError> {
        let api = self.sources.pod_group_api();
        let mut heard = Vec::new();
        {
            let seen = self.known.seen(serving, self.key.shape, api);
            if first {
                heard.push(self.machine.restore(serving, &seen));
            } else {
                if let Some(before) = self.spec.as_ref().filter(|before| **before != serving.spec) {
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
                let (due, later) = self.later.drain(..).partition(|(at, _)| *at <= now);
                self.later = later;
                let due: Vec<(Instant, Later)> = due;
                for (_, Later::GraceOver { pod, uid }) in &due {
                    let event = Event::GraceOver { pod, uid };
                    heard.push(self.machine.hear(event, serving, &seen));
                }
            }
        }
        self.spec = Some(serving.spec.clone());
        let (mut plan, mut result) = (false, Ok(()));
        for one in heard {
            plan |= one.reconcile;
            self.later.extend(one.later.into_iter().map(|(after, what)| (now + after, what)));
            // What one of them cannot do does not keep the others from being done.
            let followed = self.course().follow(&one.steps).await;
            result = result.and(followed);
        }
        self.swept(serving, &mut plan);
        if result.is_err() {
            self.plan_at = Some(now);
        }
        result.map(|()| plan)
    }

    /// One plan, and what it says.
    async fn plan(&mut self, serving: ModelServing, dress: &Dress) -> Result<(), WriteError> {
        let mut serving = serving;
        loop {
            let begun = Instant::now();
            let api = self.sources.pod_group_api();
            let plan = {
                let seen = self.known.seen(&serving, self.key.shape, api);
                self.machine.plan(&serving, &seen, dress, Timestamp::now())
            };
            self.outlets.metrics.looked(begun.elapsed());
            self.plan_at = plan.later.map(|after| Instant::now() + after);
            let followed = self.course().follow(&plan.steps).await;
            if followed.is_err() {
                // The rest was dropped: it is looked at again, after a while.
                self.plan_at = Some(Instant::now());
            }
            followed?;
            let mut again = plan.again;
            if let Some(error) = plan.error {
                self.stuck(&error, dress);
            } else {
                self.failures = 0;
                self.error = None;
            }
            self.swept(&serving, &mut again);
            if !again {
                return Ok(());
            }
            // Its status may be newer by now.
            let Ok(newer) = self.written.read() else { return Ok(()) };
            serving = newer;
        }
    }

    fn swept(&mut self, serving: &ModelServing, plan: &mut bool) {
        let api = self.sources.pod_group_api();
        let seen = self.known.seen(serving, self.key.shape, api);
        *plan |= self.machine.sweep(&seen);
    }

    /// What is said of rank tables, and what their pods say of their groups.
    async fn tables(&mut self, dress: &Dress) -> Result<(), WriteError> {
        let Ok(serving) = self.written.read() else { return Ok(()) };
        let mut status = serving.status.clone().unwrap_or_default();
        (self.shown.rank_groups, self.shown.tables) = (0, 0);
        let news = match dress {
            Dress::Plain => {
                self.said = None;
                tables::clear(&mut status.conditions)
            }
            Dress::Trouble(trouble) => {
                self.troubled(trouble);
                let now = Timestamp::now().strftime("%FT%TZ").to_string();
                tables::set(&mut status.conditions, Some(trouble), &[], &now)
            }
            Dress::Tables { tables: wanted, .. } => {
                self.said = None;
                for (pod, size) in sizes::outdated(wanted, self.known.pods()) {
                    self.resize(&pod, &size).await?;
                }
                let groups = self.known.rank_groups();
                let table = |group: &&String| Table {
                    group: (*group).clone(),
                    ready: self
                        .sources
                        .records
                        .named(&self.key.namespace, &names::record(group))
                        .and_then(|map| tables::read(&map)),
                };
                let all: Vec<Table> = groups.iter().map(table).collect();
                self.shown.rank_groups = all.len();
                self.shown.tables = all.iter().filter(|table| table.is_there()).count();
                let now = Timestamp::now().strftime("%FT%TZ").to_string();
                tables::set(&mut status.conditions, None, &all, &now)
            }
        };
        self.shown.trouble = tables::failure(&status.conditions).map(str::to_owned);
        if news {
            let status = serde_json::to_value(&status).unwrap_or_default();
            self.written = self.course().status(status).await?;
        }
        Ok(())
    }

    async fn resize(&mut self, pod: &str, size: &str) -> Result<(), WriteError> {
        let writer = &self.outlets.writer;
        let api: kube::Api<Pod> =
            kube::Api::namespaced(writer.client().clone(), &self.key.namespace);
        let change = json!({"metadata": {"annotations": {names::RANK_GROUP_SIZE: size}}});
        match writer.merge(&api, pod, &change).await {
            Ok(_) => {
                let write = metrics::Write { verb: "mark", kind: "Pod" };
                self.outlets.metrics.writes.get_or_create(&write).inc();
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn course(&mut self) -> Course<'_> {
        Course {
            key: &self.key,
            written: &mut self.written,
            machine: &mut self.machine,
            known: &mut self.known,
            outlets: &self.outlets,
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
        if !matches!(dress, Dress::Trouble(_)) {
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

    /// Says once what is wrong.
    fn troubled(&mut self, trouble: &Trouble) {
        if self.said.as_ref() == Some(trouble) {
            return;
        }
        self.said = Some(trouble.clone());
        self.warn(GENERATION_FAILED, trouble.message.clone());
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
        let (events, about) = (self.outlets.events.clone(), self.written.reference());
        tokio::spawn(async move { events.warning(&about, reason, message).await });
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
        later.chain(self.plan_at).chain(self.doubt_at).min()
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
