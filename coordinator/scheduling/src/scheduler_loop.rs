//! The scheduler's loop: it receives what changes, runs cycles, sends out orders and receives their results. One task, no locks.
//!
//! It is no `Reconciler`: a cycle decides about all pods at once, so there is no key that could be reconciled on its own, and nothing
//! to queue. What fails is tried again by the state that knows of it (`in_flight`, `nomination`, `reservation`), with the time of the
//! cycle, so that tests and a simulator drive it. Its watches are its own too: it keeps 40,000 pods in a form that only the engine
//! reads, and drops the rest while it parses, where a shared reflector would hold every pod twice.

mod clock;
mod orders;
mod results;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_scheduler_state::live::InForce;
use muster_scheduler_state::{Cluster, Kind};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cluster_events::ClusterEvents;
use super::grouper::Grouper;
use super::grouper::controller::GroupedPod;
use super::intake::Intake;
use super::live::Following;
use super::status_writer::StatusWriter;
use super::transitions::Transitions;
use super::usage::Past;
use super::{Context, Settings};
use clock::Clock;
use muster_hub::Hub;
use results::OrderResult;

/// A cycle of a large cluster takes seconds; one that takes longer than this never ends.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The loop, and what it knows.
pub struct SchedulerLoop {
    settings: Settings,
    context: Context,
    hub: Hub,
    cluster: Box<Cluster>,
    clock: Clock,
    /// What is obeyed.
    in_force: Following,
    /// The field of `kai-config` that keeps pods from being placed, if one does.
    paused: Option<&'static str>,
    /// What queues have used of late.
    past: watch::Receiver<Past>,
    /// Kinds that have not been listed yet.
    unlisted: BTreeSet<Kind>,
    /// Since when there is something to decide on.
    changed: Option<Instant>,
    last: Option<Instant>,
    send_result: mpsc::UnboundedSender<OrderResult>,
    results: mpsc::UnboundedReceiver<OrderResult>,
    permits: Arc<Semaphore>,
    status: StatusWriter,
    transitions: Transitions,
    /// Events are written as long as the loop is there.
    _writing: DropGuard,
    intake: Intake,
    grouper: Grouper,
    grouped: mpsc::UnboundedReceiver<GroupedPod>,
}

// === impl SchedulerLoop ===

impl SchedulerLoop {
    /// One that knows nothing yet.
    pub fn new(
        settings: Settings,
        context: Context,
        hub: Hub,
        (in_force, past): (Following, watch::Receiver<Past>),
        (grouper, grouped): (Grouper, mpsc::UnboundedReceiver<GroupedPod>),
    ) -> Self {
        let (send_result, results) = mpsc::unbounded_channel();
        let writing = CancellationToken::new();
        Self {
            cluster: Box::new(Cluster::new(settings.cluster.clone())),
            permits: Arc::new(Semaphore::new(settings.writes)),
            status: StatusWriter::new(context.clone()),
            transitions: Transitions::start(&context.events, context.metrics.dropped(), &writing),
            intake: Intake::new(grouper.waiting().clone(), context.writer.clone()),
            grouper,
            grouped,
            settings,
            context,
            hub,
            clock: Clock::new(),
            in_force,
            paused: None,
            past,
            unlisted: BTreeSet::new(),
            changed: None,
            last: None,
            send_result,
            results,
            _writing: writing.drop_guard(),
        }
    }

    /// Works until stopped.
    pub async fn run(mut self, mut events: ClusterEvents, stop: CancellationToken) {
        self.unlisted = events.kinds.clone();
        let heart = self.context.heartbeats.register("scheduler", STUCK_AFTER);
        let mut changes = Vec::new();
        loop {
            let wake = self.wake();
            tokio::select! {
                () = stop.cancelled() => return,
                received = events.recv(&mut changes) => if received.is_none() { return },
                Some(result) = self.results.recv() => self.on_result(result),
                Some(done) = self.grouped.recv() => self.group(done),
                Ok(()) = self.in_force.changed() => self.in_force.mark_changed(),
                Ok(()) = self.past.changed() => self.past.mark_changed(),
                () = until(wake) => {}
                () = heart.answer() => {}
            }
            for change in changes.drain(..) {
                self.on_change(change);
            }
            while let Ok(result) = self.results.try_recv() {
                self.on_result(result);
            }
            while let Ok(done) = self.grouped.try_recv() {
                self.group(done);
            }
            // Before the next cycle, whatever else has come with it.
            if self.in_force.has_changed().unwrap_or(false) {
                self.configure();
            }
            if self.past.has_changed().unwrap_or(false) {
                self.remember();
            }
            self.intake.mark_due(&self.cluster);
            for again in self.cluster.due(self.clock.now()) {
                self.send_bind(again);
            }
            if self.is_due() && !self.cycle().await {
                return;
            }
            self.share();
            if self.status.next().is_some_and(|at| at <= Instant::now()) {
                self.status.write_changes(
                    &self.cluster,
                    &self.context.shown.last(),
                    self.clock.now(),
                );
            }
        }
    }

    /// When to look again though nothing is heard.
    fn wake(&self) -> Option<Instant> {
        let next = self.cluster.next().map(|at| self.clock.instant(at));
        [self.cycle_at(), next, self.status.next(), self.intake.next()].into_iter().flatten().min()
    }

    /// When the next cycle begins; none before everything has been listed.
    fn cycle_at(&self) -> Option<Instant> {
        if !self.unlisted.is_empty() || !self.is_on() {
            return None;
        }
        let Some(last) = self.last else { return Some(Instant::now()) };
        let regular = last + self.settings.period;
        let soon = self
            .changed
            .map(|changed| (changed + self.settings.debounce).max(last + self.settings.shortest));
        Some(soon.map_or(regular, |soon| soon.min(regular)))
    }

    /// Obeys what is in force now.
    fn configure(&mut self) {
        let Some(now) = self.in_force.borrow_and_update().clone() else { return };
        self.settings.cluster.config.clone_from(&now.config);
        self.cluster.configure(now.config.clone());
        self.intake.switch(now.switches.grouping);
        let label = now.switches.queue_label().unwrap_or(&self.settings.grouping.queue_label);
        self.grouper.read_queue_from(label);
        self.pause(now.switches.paused);
        self.grouper.gang_knative(now.switches.knative_gang);
        self.context.shown.obey(now);
        self.changed.get_or_insert_with(Instant::now);
    }

    /// Counts and logs whether scheduling is paused, and by which field. One line for each transition.
    fn pause(&mut self, field: Option<&'static str>) {
        self.context.metrics.paused(field.is_some());
        match (std::mem::replace(&mut self.paused, field), field) {
            (None, Some(field)) => tracing::warn!(
                reason = "paused",
                field,
                "no pod is placed: Config kai-config has {field}: false; set it to true to go on"
            ),
            (Some(field), None) => {
                tracing::info!(field, "pods are placed again: Config kai-config allows it");
            }
            _ => {}
        }
    }

    /// Counts what queues have used of late.
    fn remember(&mut self) {
        let usage = self.past.borrow_and_update().usage();
        self.cluster.set_usage(usage);
        self.changed.get_or_insert_with(Instant::now);
    }

    /// Whether pods are placed: what is in force is known, nobody has switched it off, and nobody waits for past use.
    fn is_on(&self) -> bool {
        let on = |now: &InForce| {
            // What asks for it may not have heard of it yet.
            let waits = now.config.usage.is_some()
                && matches!(*self.past.borrow(), Past::Off | Past::Awaited);
            now.switches.paused.is_none() && !waits
        };
        self.in_force.borrow().as_deref().is_some_and(on)
    }

    fn is_due(&self) -> bool {
        self.cycle_at().is_some_and(|at| at <= Instant::now())
    }

    /// Runs a cycle. False if it could not end.
    async fn cycle(&mut self) -> bool {
        let (began, now) = (Instant::now(), self.clock.now());
        let empty = Box::new(Cluster::new(self.settings.cluster.clone()));
        let mut cluster = std::mem::replace(&mut self.cluster, empty);
        // It thinks for milliseconds: others go on meanwhile.
        let thought = tokio::task::spawn_blocking(move || {
            let cycle = cluster.cycle(now);
            (cluster, cycle)
        });
        let Ok((cluster, cycle)) = thought.await else {
            tracing::error!(reason = "cycle", "a cycle has failed: everything is listed anew");
            return false;
        };
        self.cluster = cluster;
        (self.last, self.changed) = (Some(Instant::now()), None);
        self.context.metrics.cycled(began.elapsed(), &cycle.decisions);
        if cycle.panics > 0 {
            self.context.metrics.panicked(cycle.panics);
            tracing::error!(
                reason = "decision-panicked",
                times = cycle.panics,
                "a decision panicked: the groups to blame are left out, with the reason DecisionFailed"
            );
        }
        self.obey(cycle);
        true
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
