//! The desk: it hears what changes, runs cycles, sends out orders and hears what came of them. One task, no locks.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use muster_placement::evicted::{self, Batch};
use muster_placement::fault::{Group, Note};
use muster_placement::live::InForce;
use muster_placement::object::{Name, shown};
use muster_placement::reservation::Spot;
use muster_placement::{Bind, Cluster, Cycle, Evict, Kind, Object, Outcome, Steps};
use muster_scheduler::input::{Dialect, KAI_GROUP};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::{Change, Feed};
use super::grouper::Grouper;
use super::intake::{Done, Intake};
use super::live::Following;
use super::notes::Notes;
use super::transitions::{Audience, Transitions};
use super::usage::Past;
use super::{Outlets, Settings, agents, bind, evict, fault, reserve};
use crate::hub::Hub;
use crate::write::Writer;

/// What has come of an order.
#[derive(Debug)]
enum Told {
    Bound(Name, String, Outcome),
    Evicted(Name, String, Outcome),
    Noted(Group, Timestamp, Outcome),
    Made(Spot, Outcome),
    Marked(Name, String, Outcome),
    Released(Name, String, Outcome),
    Cleared(Name, String, Outcome),
}

/// The desk.
pub struct Desk {
    settings: Settings,
    outlets: Outlets,
    hub: Hub,
    cluster: Box<Cluster>,
    clock: Clock,
    /// What is obeyed.
    in_force: Following,
    /// What queues have used of late.
    past: watch::Receiver<Past>,
    /// Kinds that have not been listed yet.
    unlisted: BTreeSet<Kind>,
    /// Since when there is something to decide on.
    changed: Option<Instant>,
    last: Option<Instant>,
    tell: mpsc::UnboundedSender<Told>,
    told: mpsc::UnboundedReceiver<Told>,
    permits: Arc<Semaphore>,
    notes: Notes,
    transitions: Transitions,
    intake: Intake,
    grouper: Grouper,
    grouped: mpsc::UnboundedReceiver<Done>,
}

/// A clock that does not jump: the wall's when it began, and what has passed since.
#[derive(Clone, Copy, Debug)]
struct Clock {
    began: Timestamp,
    at: Instant,
}

// === impl Clock ===

impl Clock {
    fn new() -> Self {
        Self { began: Timestamp::now(), at: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.at.elapsed()).unwrap_or_default();
        self.began.saturating_add(passed).unwrap_or(self.began)
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let after = at.duration_since(self.began);
        self.at + std::time::Duration::try_from(after).unwrap_or_default()
    }
}

// === impl Desk ===

impl Desk {
    /// A desk that knows nothing yet.
    pub fn new(
        settings: Settings,
        outlets: Outlets,
        hub: Hub,
        (in_force, past): (Following, watch::Receiver<Past>),
    ) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let (done, grouped) = mpsc::unbounded_channel();
        let grouper = Grouper::new(
            outlets.writer.clone(),
            outlets.events.clone(),
            settings.grouping.clone(),
            outlets.grouping.clone(),
        );
        Self {
            cluster: Box::new(Cluster::new(settings.cluster.clone())),
            permits: Arc::new(Semaphore::new(settings.writes)),
            notes: Notes::new(outlets.clone()),
            transitions: Transitions::new(outlets.events.clone()),
            intake: Intake::new(grouper.clone(), outlets.writer.clone(), done),
            grouper,
            grouped,
            settings,
            outlets,
            hub,
            clock: Clock::new(),
            in_force,
            past,
            unlisted: BTreeSet::new(),
            changed: None,
            last: None,
            tell,
            told,
        }
    }

    /// Works until stopped.
    pub async fn run(mut self, mut feed: Feed, stop: CancellationToken) {
        self.unlisted = feed.kinds.clone();
        let mut changes = Vec::new();
        loop {
            let wake = self.wake();
            tokio::select! {
                () = stop.cancelled() => return,
                heard = feed.next(&mut changes) => if heard.is_none() { return },
                Some(told) = self.told.recv() => self.hear(told),
                Some(done) = self.grouped.recv() => self.group(done),
                Ok(()) = self.in_force.changed() => self.in_force.mark_changed(),
                Ok(()) = self.past.changed() => self.past.mark_changed(),
                () = until(wake) => {}
            }
            for change in changes.drain(..) {
                self.take(change);
            }
            while let Ok(told) = self.told.try_recv() {
                self.hear(told);
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
            self.intake.look(&self.cluster);
            for again in self.cluster.due(self.clock.now()) {
                self.send_bind(again);
            }
            if self.is_due() && !self.cycle().await {
                return;
            }
            self.share();
            if self.notes.next().is_some_and(|at| at <= Instant::now()) {
                self.notes.say(&self.cluster, &self.outlets.shown.last(), self.clock.now());
            }
        }
    }

    /// When to look again though nothing is heard.
    fn wake(&self) -> Option<Instant> {
        let next = self.cluster.next().map(|at| self.clock.instant(at));
        [self.cycle_at(), next, self.notes.next(), self.intake.next()].into_iter().flatten().min()
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
        self.grouper.gang_knative(now.switches.knative_gang);
        self.outlets.shown.obey(now);
        self.changed.get_or_insert_with(Instant::now);
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

    fn take(&mut self, change: Change) {
        match change {
            Change::Put(object) => {
                let node = match &*object {
                    Object::Node(node) => Some(node.metadata.name.clone()),
                    _ => None,
                };
                self.cluster.put(*object);
                // What its devices are called is known only now.
                if let Some(node) = node {
                    self.ask_agent(&node);
                }
            }
            Change::Agent(node) => self.ask_agent(&node),
            Change::Gone(kind, name) => self.remove(kind, &name),
            Change::Listed(kind, names) => {
                for gone in self.cluster.names(kind) {
                    if !names.contains(&gone) {
                        self.remove(kind, &gone);
                    }
                }
                self.unlisted.remove(&kind);
            }
            Change::Ungrouped(name, text) => self.intake.take(&self.cluster, name, text),
            Change::Unreadable(kind, name, why) => {
                self.cluster.set_aside(kind, &name);
                let object = shown(&name);
                tracing::warn!(?kind, object, reason = "unreadable", "set aside: {why}");
            }
        }
        self.changed.get_or_insert_with(Instant::now);
    }

    /// Takes over what the agent of a node says.
    fn ask_agent(&mut self, node: &str) {
        let Some(seen) = self.hub.inventory(node) else { return };
        let offered = self.cluster.node(node).map(|node| &node.status.allocatable);
        match agents::inventory(node, &seen, offered) {
            Some(inventory) => self.cluster.put_inventory(inventory),
            None => self.cluster.remove_inventory(node),
        }
        self.cluster.hold(node, agents::struck(&seen, &self.hub.pods_of(node)));
    }

    fn remove(&mut self, kind: Kind, name: &Name) {
        match kind {
            Kind::Node => self.cluster.remove_inventory(&name.1),
            Kind::Pod => self.intake.gone(name),
            Kind::PodGroup(Dialect::Kai) => self.grouper.forget(&name.0, &name.1),
            _ => {}
        }
        self.cluster.remove(kind, name);
    }

    fn group(&mut self, done: Done) {
        if self.intake.done(&mut self.cluster, done) {
            self.changed.get_or_insert_with(Instant::now);
        }
    }

    fn hear(&mut self, told: Told) {
        let now = self.clock.now();
        match told {
            Told::Bound(pod, uid, outcome) => {
                self.outlets.metrics.bound(&outcome);
                if let Some(why) = self.cluster.landed(&pod, &uid, outcome, now) {
                    let pod = shown(&pod);
                    tracing::warn!(pod, reason = "binding", "given up for now: {why}");
                    self.changed.get_or_insert_with(Instant::now);
                }
            }
            Told::Noted(group, at, outcome) => {
                if let Outcome::Failed(why) | Outcome::Unsure(why) = &outcome {
                    let group = shown(&group.1);
                    tracing::warn!(group, reason = "fault", "a restart cannot be noted: {why}");
                }
                self.cluster.noted(&group, at, &outcome, now);
                self.changed.get_or_insert_with(Instant::now);
            }
            Told::Made(spot, outcome) => {
                complain("reservation", &spot.pod(), &outcome);
                self.cluster.made(&spot, &outcome, now);
            }
            Told::Marked(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.marked(&pod, &uid, &outcome, now);
            }
            Told::Released(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.released(&pod, &uid, &outcome, now);
            }
            Told::Cleared(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.cleared(&pod, &uid, &outcome, now);
            }
            Told::Evicted(pod, uid, outcome) => {
                self.outlets.metrics.evicted(&outcome);
                self.cluster.evicted(&pod, &uid, &outcome, now);
                self.changed.get_or_insert_with(Instant::now);
            }
        }
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
        self.outlets.metrics.cycled(began.elapsed(), &cycle.decisions);
        self.obey(cycle);
        true
    }

    fn obey(&mut self, cycle: Cycle) {
        let Cycle { binds, evictions, notes, decisions } = cycle;
        for bind in binds {
            self.send_bind(bind);
        }
        for batch in evicted::batches(&self.cluster, evictions) {
            self.send_evictions(batch);
        }
        for note in notes {
            self.send_note(note);
        }
        self.outlets.metrics.struck(self.cluster.faults().struck());
        self.notes.mark(&decisions);
        self.notes.say(&self.cluster, &decisions, self.clock.now());
        self.outlets.shown.set(decisions);
    }

    fn send_bind(&self, order: Bind) {
        let marks = self
            .cluster
            .membership(&order.pod)
            .map(|known| (KAI_GROUP.to_owned(), known.group.clone()));
        let (writer, tell) = (self.outlets.writer.clone(), self.tell.clone());
        let (permits, transitions) = (self.permits.clone(), self.transitions.clone());
        let pool = self.settings.cluster.config.params.node_pool.name().to_owned();
        tokio::spawn(async move {
            let Ok(permit) = permits.acquire_owned().await else { return };
            let outcome = bind::bind(&writer, &order, marks.into_iter().collect()).await;
            drop(permit);
            let is_done = outcome == Outcome::Done;
            // Nobody listens any more when the term is over.
            let _ended = tell.send(Told::Bound(order.pod.clone(), order.uid.clone(), outcome));
            if is_done {
                transitions.scheduled(&order, &pool).await;
            }
        });
    }

    /// A restart because of a fault is written down; its pods go when that is done.
    fn send_note(&self, note: Note) {
        self.outlets.metrics.restarts(note.policy.word());
        let (outlets, tell) = (self.outlets.clone(), self.tell.clone());
        tokio::spawn(async move {
            let outcome = fault::note(&outlets, &note).await;
            let _ended = tell.send(Told::Noted(note.group, note.restart.at, outcome));
        });
    }

    /// Looks after devices that pods share.
    fn share(&mut self) {
        let unmarked = self.cluster.reservations().unmarked();
        let device = |(node, pod, uid): (&str, &Name, &str)| {
            Some((pod.clone(), uid.to_owned(), reserve::device(&self.hub, node, uid)?))
        };
        let found: Vec<(Name, String, String)> = unmarked.filter_map(device).collect();
        for (pod, uid, device) in found {
            self.cluster.found(&pod, &uid, &device);
        }
        // Nothing is decided before everything has been listed.
        if !self.unlisted.is_empty() {
            return;
        }
        let steps = self.cluster.share(self.clock.now());
        self.outlets.metrics.reserved(self.cluster.reservations().len());
        self.obey_steps(steps);
    }

    fn obey_steps(&mut self, steps: Steps) {
        let Steps { make, mark, release, lost, clear, binds, given_up } = steps;
        for order in make {
            let what = self.settings.reservation.clone();
            let params = &self.settings.cluster.config.params;
            let app = params.resource_reservation_app_label.clone();
            self.send(|writer| async move {
                let outcome = reserve::make(&writer, &order, &what, &app).await;
                Told::Made(order.spot, outcome)
            });
        }
        for order in mark {
            self.send(|writer| async move {
                let outcome = reserve::mark(&writer, &order).await;
                Told::Marked(order.pod, order.uid, outcome)
            });
        }
        for order in lost {
            let pod = shown(&order.pod);
            tracing::warn!(pod, reason = "reservation", "deleted: its device is not held any more");
            let events = self.outlets.events.clone();
            self.send(|writer| async move {
                let outcome = reserve::lose(&writer, &events, &order).await;
                Told::Released(order.pod, order.uid, outcome)
            });
        }
        for order in release {
            self.send(|writer| async move {
                let outcome = reserve::release(&writer, &order).await;
                Told::Released(order.pod, order.uid, outcome)
            });
        }
        for order in clear {
            let pod = shown(&order.pod);
            tracing::info!(
                pod,
                reason = "reservation",
                "loses labels of a binding that was not finished"
            );
            self.send(|writer| async move {
                let outcome = reserve::clear(&writer, &order).await;
                Told::Cleared(order.pod, order.uid, outcome)
            });
        }
        for (pod, why) in given_up {
            tracing::warn!(pod = shown(&pod), reason = "binding", "given up for now: {why}");
            self.changed.get_or_insert_with(Instant::now);
        }
        for bind in binds {
            self.send_bind(bind);
        }
    }

    /// Writes something; what came of it is heard later.
    fn send<F>(&self, order: impl FnOnce(Writer) -> F)
    where
        F: Future<Output = Told> + Send + 'static,
    {
        let (written, tell) = (order(self.outlets.writer.clone()), self.tell.clone());
        let permits = self.permits.clone();
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            // Nobody listens any more when the term is over.
            let _ended = tell.send(written.await);
        });
    }

    /// Pods of one group go; when all have been told, the group and its owner hear of those that do.
    fn send_evictions(&self, batch: Batch) {
        let audience = Audience::of(&self.cluster, &batch);
        let mut going = JoinSet::new();
        for order in batch.pods {
            going.spawn(self.evict(order));
        }
        let transitions = self.transitions.clone();
        tokio::spawn(async move {
            let (mut gone, mut seen) = (Vec::new(), None);
            while let Some(ended) = going.join_next().await {
                let Ok(Some((order, pod))) = ended else { continue };
                gone.push(order);
                seen = seen.or(pod);
            }
            gone.sort_by(|one, other| one.pod.cmp(&other.pod));
            transitions.batch(&gone, audience, seen.as_ref()).await;
        });
    }

    /// Makes a pod go. The order and the pod, if it does.
    fn evict(&self, order: Evict) -> impl Future<Output = Option<(Evict, Option<Pod>)>> + use<> {
        let (writer, tell, how) =
            (self.outlets.writer.clone(), self.tell.clone(), self.settings.eviction);
        let (permits, transitions) = (self.permits.clone(), self.transitions.clone());
        async move {
            let permit = permits.acquire_owned().await.ok()?;
            let message = evicted::message(&[&order.pod], &order.why);
            let (outcome, seen) = evict::evict(&writer, &order, how, &message).await;
            drop(permit);
            let goes = outcome == Outcome::Done;
            let _ended = tell.send(Told::Evicted(order.pod.clone(), order.uid.clone(), outcome));
            if !goes {
                return None;
            }
            transitions.evicted(&order, message).await;
            Some((order, seen))
        }
    }
}

/// Says what did not work.
fn complain(reason: &'static str, pod: &str, outcome: &Outcome) {
    if let Outcome::Failed(why) | Outcome::Unsure(why) = outcome {
        tracing::warn!(pod, reason, "tried again later: {why}");
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
