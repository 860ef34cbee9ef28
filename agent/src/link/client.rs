//! Keeps the link: connects, reconnects, and does what the state machine says.
//!
//! ```text
//!   dial ──▶ serve ──▶ (ended) ──▶ wait, longer each time ──▶ dial …
//!              │
//!              └─ the token file changed: dial anew beside it, then move over
//! ```
//!
//! Inventory and pods come in by watch channels, so that whatever happened while the link was down is one change.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use muster_proto::delivery::{Delivered, Place};
use muster_proto::device::Inventory;
use muster_proto::link::{FromAgent, FromHub, v1};
use muster_proto::pod::PodDevices;
use rand::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use super::dial::LinkSettings;
use super::dial::{Connection, StreamError};
use super::status::LastError;
use super::{Deliver, DeliverError, Link, LinkState, LinkStatus, Me, Output};
use crate::problem::{Area, Finding, Problems};

/// How long the hub may let a message wait.
const SEND: Duration = Duration::from_secs(30);

/// A stream that lived so long was a good one: the next try need not wait.
const STEADY: Duration = Duration::from_secs(30);

/// The pause after a stream that the hub ended as a matter of course, before it is jittered.
const ROUTINE: Duration = Duration::from_secs(1);

/// The pause while nobody leads, before it is jittered: another hub leads as soon as the last one's lease is over.
const LEADERLESS: Duration = Duration::from_secs(1);

/// How often that pause is taken before pauses grow.
const LEADERLESS_TRIES: u32 = 15;

/// Hops from hub to hub without a pause.
const HOPS: u32 = 3;

/// The pause after another agent has taken this node's place.
const RIVAL: Duration = Duration::from_secs(10);

/// The subject of this part's problems.
const HUB: &str = "hub";

/// What became of an order, and where.
type Done = (Place, Result<Option<Delivered>, DeliverError>);

/// Keeps the link.
#[derive(Debug)]
pub struct Client<D> {
    settings: Arc<LinkSettings>,
    deliver: Arc<D>,
    link: Link,
    inventory: watch::Receiver<Arc<Inventory>>,
    pods: watch::Receiver<Arc<Vec<PodDevices>>>,
    problems: Problems,
    status: watch::Sender<LinkStatus>,
    tasks: JoinSet<Done>,
    /// The highest epoch that is on the disk.
    remembered: u64,
    began: Instant,
}

/// Why a stream is no longer served.
enum End {
    Stopped,
    Failed(StreamError),
    Redirect(Option<String>),
}

// === impl Client ===

impl<D: Deliver> Client<D> {
    /// A client that [`run`](Self::run) starts, and how its link is.
    pub fn new(
        settings: LinkSettings,
        me: Me,
        deliver: Arc<D>,
        inventory: watch::Receiver<Arc<Inventory>>,
        pods: watch::Receiver<Arc<Vec<PodDevices>>>,
        problems: Problems,
    ) -> (Self, watch::Receiver<LinkStatus>) {
        let link = Link::new(me, deliver.epoch(), deliver.delivered());
        let status = LinkStatus {
            epoch: link.epoch(),
            address: settings.address.clone(),
            since: jiff::Timestamp::now().as_second(),
            ..LinkStatus::default()
        };
        let remembered = link.epoch();
        let (status, watched) = watch::channel(status);
        let client = Self {
            settings: Arc::new(settings),
            deliver,
            link,
            inventory,
            pods,
            problems,
            status,
            tasks: JoinSet::new(),
            remembered,
            began: Instant::now(),
        };
        (client, watched)
    }

    /// Keeps the link until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut address = self.settings.address.clone();
        let mut wait = self.settings.backoff_least;
        let (mut leaderless, mut hops) = (0, 0);
        self.first_inputs();
        while !stop.is_cancelled() {
            self.state(LinkState::Connecting, &address);
            let dialled = tokio::select! {
                () = stop.cancelled() => return,
                dialled = self.settings.dial(&address) => dialled,
            };
            let (began, epoch) = (Instant::now(), self.remembered);
            let end = match dialled {
                Ok(connection) => self.serve(connection, &stop).await,
                Err(error) => End::Failed(error),
            };
            self.link.disconnected();
            self.state(LinkState::Down, &address);
            // Another one led in between: whatever has failed before was not this hub's fault.
            if began.elapsed() >= STEADY || self.remembered > epoch {
                wait = self.settings.backoff_least;
                (leaderless, hops) = (0, 0);
            }
            // A hub that does not lead has named one that is gone: its lease is not over yet.
            let gone = address != self.settings.address && matches!(end, End::Failed(_));
            let headless = gone || matches!(end, End::Redirect(_));
            match end {
                End::Stopped => return,
                End::Redirect(Some(leader)) if leader != address => {
                    tracing::info!(leader, "the hub does not lead");
                    address = leader;
                    hops += 1;
                    if hops <= HOPS {
                        continue;
                    }
                }
                End::Redirect(_) => {
                    self.failed(StreamError::new("no-leader", "no hub leads"));
                    address.clone_from(&self.settings.address);
                }
                End::Failed(error) => {
                    if error.is_routine() {
                        tracing::info!(reason = error.reason, "the hub ends the stream: {error}");
                        // Everybody was told so at the same moment.
                        wait = wait.max(ROUTINE);
                    } else {
                        if error.reason == "replaced" {
                            // Another agent speaks for this node. Two must not push each other out all day.
                            wait = wait.max(RIVAL);
                        }
                        self.failed(error);
                    }
                    address.clone_from(&self.settings.address);
                }
            }
            hops = 0;
            leaderless = if headless { leaderless + 1 } else { 0 };
            let soon = (1..=LEADERLESS_TRIES).contains(&leaderless);
            let pause = match soon {
                true => jittered(LEADERLESS.min(self.settings.backoff_most)),
                false => jittered(wait),
            };
            if !soon {
                wait = (wait * 2).min(self.settings.backoff_most);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What is known at the start. Nothing yet is not the same as having nothing, which would make the hub forget.
    fn first_inputs(&mut self) {
        let changed = self.inventory.has_changed().unwrap_or(false);
        let inventory = self.inventory.borrow_and_update().clone();
        if changed || *inventory != Inventory::default() {
            self.take_inventory(inventory);
        }
        let changed = self.pods.has_changed().unwrap_or(false);
        let pods = self.pods.borrow_and_update().clone();
        if changed || !pods.is_empty() {
            self.link.pods(&pods);
        }
    }

    fn take_inventory(&mut self, inventory: Arc<Inventory>) -> Vec<Output> {
        match self.link.inventory(inventory) {
            Ok(outputs) => {
                self.problems.clear(Area::Link, "inventory");
                outputs
            }
            Err(DeliverError { reason, message }) => {
                self.problems.raise(Area::Link, Finding::new(reason, "inventory", message));
                Vec::new()
            }
        }
    }

    /// Serves one stream after the other, as long as each takes over from the one before.
    async fn serve(&mut self, mut connection: Connection, stop: &CancellationToken) -> End {
        while let Some(Ok((place, outcome))) = self.tasks.try_join_next() {
            self.link.done(&place, outcome);
        }
        if let Err(end) = self.connect(&connection, stop).await {
            return end;
        }
        let mut redial: OptionFuture<BoxFuture<'static, Result<Connection, StreamError>>> =
            None.into();
        let mut redialling = false;
        // The stream before this one; it ends when this one is welcomed.
        let mut leaving: Option<Connection> = None;
        let (mut inventory_lives, mut pods_live) = (true, true);
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut tick_every = Duration::from_secs(1);
        loop {
            if self.link.tick_every() != tick_every {
                tick_every = self.link.tick_every();
                tick = tokio::time::interval(tick_every);
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            }
            let outputs = tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                Some(done) = self.tasks.join_next() => match done {
                    Ok((place, outcome)) => self.link.done(&place, outcome),
                    Err(_) => Vec::new(),
                },
                message = connection.incoming.message(), if self.link.reads() => {
                    match self.received(&connection.address, message) {
                        Ok(outputs) => outputs,
                        Err(end) => return end,
                    }
                }
                changed = self.inventory.changed(), if inventory_lives => {
                    inventory_lives = changed.is_ok();
                    let inventory = self.inventory.borrow_and_update().clone();
                    if inventory_lives { self.take_inventory(inventory) } else { Vec::new() }
                }
                changed = self.pods.changed(), if pods_live => {
                    pods_live = changed.is_ok();
                    let pods = self.pods.borrow_and_update().clone();
                    if pods_live { self.link.pods(&pods) } else { Vec::new() }
                }
                Some(fresh) = &mut redial, if redialling => {
                    redialling = false;
                    match fresh {
                        Ok(fresh) => {
                            tracing::info!("the token has changed; moving to a new stream");
                            leaving = Some(std::mem::replace(&mut connection, fresh));
                            if let Err(end) = self.connect(&connection, stop).await {
                                return end;
                            }
                        }
                        // The stream lives on, and the next ping tries again.
                        Err(error) => self.note(&error),
                    }
                    Vec::new()
                }
                _ = tick.tick() => self.link.tick(self.now()),
            };
            if self.link.is_up() {
                drop(leaving.take());
            }
            let pinged = outputs.iter().any(|o| matches!(o, Output::Send(FromAgent::Ping(_))));
            if pinged
                && !redialling
                && self.settings.token().is_ok_and(|now| now != connection.token)
            {
                let (settings, address) = (self.settings.clone(), connection.address.clone());
                redial = Some(Box::pin(async move { settings.dial(&address).await }) as _).into();
                redialling = true;
            }
            if self.link.epoch() > self.remembered {
                self.remembered = self.link.epoch();
                // Before anything that a hub of this epoch orders.
                self.deliver.saw(self.remembered).await;
            }
            if let Err(end) = self.perform(&connection, outputs, stop).await {
                return end;
            }
        }
    }

    /// Begins to speak on a stream.
    async fn connect(
        &mut self,
        connection: &Connection,
        stop: &CancellationToken,
    ) -> Result<(), End> {
        self.deliver.verify().await;
        self.link.delivered(self.deliver.delivered());
        let hello = self.link.connected(self.now());
        self.perform(connection, hello, stop).await
    }

    fn received(
        &mut self,
        address: &str,
        message: Result<Option<v1::FromHub>, tonic::Status>,
    ) -> Result<Vec<Output>, End> {
        let failed = |reason, message| End::Failed(StreamError::new(reason, message));
        let message = message
            .map_err(|status| End::Failed(StreamError::of_status(address, &status)))?
            .ok_or_else(|| failed("unreachable", format!("{address} has ended the stream")))?;
        let message = FromHub::try_from(message)
            .map_err(|invalid| failed("protocol", format!("{address} said: {invalid}")))?;
        self.status.send_modify(|status| status.received += 1);
        let was_up = self.link.is_up();
        let outputs = self.link.received(self.now(), message);
        if self.link.is_up() && !was_up {
            self.problems.clear(Area::Link, HUB);
            let epoch = self.link.epoch();
            tracing::info!(address, epoch, "connected to the coordinator");
            self.state(LinkState::Up, address);
            self.status.send_modify(|status| {
                status.connects += 1;
                status.epoch = epoch;
            });
        }
        Ok(outputs)
    }

    /// Does what the state machine says.
    async fn perform(
        &mut self,
        connection: &Connection,
        outputs: Vec<Output>,
        stop: &CancellationToken,
    ) -> Result<(), End> {
        for output in outputs {
            match output {
                Output::Send(message) => {
                    let inventories = u64::from(matches!(message, FromAgent::Inventory(_)));
                    let send = connection.outgoing.send((&message).into());
                    let sent = tokio::select! {
                        () = stop.cancelled() => return Err(End::Stopped),
                        sent = tokio::time::timeout(SEND, send) => sent,
                    };
                    match sent {
                        // The stream has ended; receiving says why.
                        Ok(Err(_)) => {}
                        Ok(Ok(())) => self.status.send_modify(|status| {
                            status.sent += 1;
                            status.inventories_sent += inventories;
                        }),
                        Err(_) => {
                            let message =
                                format!("{} takes no message for {SEND:?}", connection.address);
                            return Err(End::Failed(StreamError::new("unreachable", message)));
                        }
                    }
                }
                Output::Deliver { epoch, delivery, packed } => {
                    let deliver = self.deliver.clone();
                    self.tasks.spawn(async move {
                        let place = delivery.place.clone();
                        let outcome = deliver.deliver(epoch, delivery, packed).await;
                        (place, outcome.map(Some))
                    });
                }
                Output::Retire { place, generation } => {
                    let deliver = self.deliver.clone();
                    self.tasks.spawn(async move {
                        let outcome = deliver.retire(&place, generation).await;
                        (place, outcome.map(|()| None))
                    });
                }
                Output::Disconnect(error) => {
                    let message = format!("{}: {error}", connection.address);
                    return Err(End::Failed(StreamError::new(error.reason(), message)));
                }
                Output::Redirect(leader) => return Err(End::Redirect(leader)),
            }
        }
        let held = self.link.held();
        self.status.send_if_modified(|status| std::mem::replace(&mut status.held, held) != held);
        Ok(())
    }

    fn failed(&self, error: StreamError) {
        self.note(&error);
        let StreamError { reason, message } = error;
        self.problems.raise(Area::Link, Finding::new(reason, HUB, message));
    }

    fn note(&self, error: &StreamError) {
        let StreamError { reason, message } = error.clone();
        let at = jiff::Timestamp::now().as_second();
        self.status
            .send_modify(|status| status.last_error = Some(LastError { reason, message, at }));
    }

    fn state(&self, state: LinkState, address: &str) {
        self.status.send_if_modified(|status| {
            let changed = status.state != state || status.address != address;
            if changed {
                status.state = state;
                status.address = address.to_owned();
                status.since = jiff::Timestamp::now().as_second();
            }
            changed
        });
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Between half of a wait and all of it, so that a thousand agents do not come back at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(rand::rng().random_range(0.5..=1.0))
}
