//! The stream to the coordinator: what is said on it and when.
//!
//! [`Link`] is the protocol as a state machine. It has no clock, no socket and no task: time is an argument, what
//! happened is a call, what is to be done comes back as [`Output`]s. [`client`] is the edge that does it.
//!
//! ```text
//!               connected            Welcome
//!     Down ─────────────▶ Greeting ──────────▶ Up ── inventory, pods, acks, pings; orders come in
//!      ▲                     │                  │
//!      └── disconnected ─────┴──────────────────┘
//! ```
//!
//! What it holds to:
//! - Nothing but Hello is said before Welcome.
//! - A hub of an older epoch than any seen before is left; so is one that breaks the protocol.
//! - The hub is told only what it does not know: Welcome says what it remembers, and the difference is sent.
//! - An order older than what is delivered is refused. One order per place is under way; of those that wait for
//!   the same place only the newest remains.
//! - Tables are held packed, within a bound, and only while an order needs them or another may soon.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_proto::Message as _;
use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::device::Inventory;
use muster_proto::link::{
    Ack, FromAgent, FromHub, Hello, LARGEST_MESSAGE, MOST_TABLES, PROTOCOL, PodsChanged, Welcome,
    inventory_digest, pods_digest, v1,
};
use muster_proto::pod::PodDevices;

use crate::host::Host;

mod blob;
pub mod client;
mod dial;
mod order;
pub mod status;
#[cfg(test)]
mod tests;

use blob::Blobs;
pub use client::Client;
pub use dial::LinkSettings;
use order::Order;
pub use status::{LinkCollector, LinkState, LinkStatus};

/// How long a hub may take to say Welcome.
const GREETING: Duration = Duration::from_secs(10);

/// How many orders are carried out at once. Most of them wait for a pod or a volume; who writes limits how many do.
const AT_ONCE: usize = 64;

/// Who takes orders; the part of the agent that writes into volumes.
pub trait Deliver: Send + Sync + 'static {
    /// Puts a packed table in its place. The epoch is to be remembered beyond the life of the process.
    fn deliver(
        &self,
        epoch: u64,
        delivery: Delivery,
        packed: Bytes,
    ) -> impl Future<Output = Result<Delivered, DeliverError>> + Send;

    /// Takes a table of this generation or an older one away.
    fn retire(
        &self,
        place: &Place,
        generation: u64,
    ) -> impl Future<Output = Result<(), DeliverError>> + Send;

    /// Looks which tables are still where they were put, before they are told of.
    fn verify(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A hub of this epoch leads. Remembered beyond the life of the process when this returns.
    fn saw(&self, epoch: u64) -> impl Future<Output = ()> + Send {
        let _ = epoch;
        async {}
    }

    /// What is where it should be.
    fn delivered(&self) -> Vec<Delivered>;

    /// The highest epoch ever seen.
    fn epoch(&self) -> u64;
}

/// An order that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeliverError {
    /// Why, for metrics.
    pub reason: &'static str,
    /// Why, for a person.
    pub message: String,
}

/// Who this agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Name of the agent's Node object.
    pub node: String,
    /// Boot id of the machine.
    pub boot_id: String,
    /// Version of the agent.
    pub version: String,
    /// Differs between two runs.
    pub instance: String,
}

// === impl Me ===

impl Me {
    /// The agent of this node, in this run.
    pub fn on(node: &str, host: &Host) -> Self {
        let boot_id = host.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let instance: u128 = rand::random();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { node: node.to_owned(), boot_id, version, instance: format!("{instance:032x}") }
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Say this to the hub.
    Send(FromAgent),
    /// Put a table somewhere, then call [`Link::done`].
    Deliver {
        /// The epoch of the hub.
        epoch: u64,
        /// What and where.
        delivery: Delivery,
        /// The table as the hub sent it, packed.
        packed: Bytes,
    },
    /// Take a table away, then call [`Link::done`].
    Retire {
        /// The pod, volume and file of the table.
        place: Place,
        /// This generation and older ones.
        generation: u64,
    },
    /// Leave the hub.
    Disconnect(HubError),
    /// Leave the hub and go to this address; none: try again later.
    Redirect(Option<String>),
}

/// Why a hub is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// Somebody newer was seen before.
    #[error(
        "the hub is of epoch {hub}, but epoch {seen} was seen before: it is no longer the leader. If the cluster was \
         restored from a backup, remove delivered.json from this agent's state directory and restart it"
    )]
    OlderEpoch {
        /// The epoch that the hub names.
        hub: u64,
        /// The highest epoch that the agent has seen.
        seen: u64,
    },
    /// It said what it must not say.
    #[error("the hub broke the protocol: {0}")]
    Protocol(String),
    /// It says nothing any more.
    #[error("the hub has not said a word for {0:?}")]
    Silent(Duration),
}

/// The protocol, as seen by an agent.
#[derive(Debug)]
pub struct Link {
    me: Me,
    /// The highest ever seen.
    epoch: u64,
    phase: Phase,
    inventory: Option<(Arc<Inventory>, Digest)>,
    pods: Option<Pods>,
    /// What the hub was told; only meaningful while Up, or if Welcome names it.
    reported_inventory: Option<Digest>,
    reported_pods: Option<Pods>,
    delivered: BTreeMap<Place, (u64, Digest)>,
    running: BTreeMap<Place, Order>,
    waiting: VecDeque<Order>,
    /// Acks that could not be said yet.
    unsent_acks: VecDeque<Ack>,
    blobs: Blobs,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Down,
    Greeting { since: Duration },
    Up { epoch: u64, ping_every: Duration, heard: Duration, pinged: Duration, pings: u64 },
}

#[derive(Debug, Clone)]
struct Pods {
    by_uid: BTreeMap<String, PodDevices>,
    digest: Digest,
}

// === impl HubError ===

impl HubError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OlderEpoch { .. } => "older-epoch",
            Self::Protocol(_) => "protocol",
            Self::Silent(_) => "unreachable",
        }
    }
}

// === impl Pods ===

impl Pods {
    fn new(pods: &[PodDevices]) -> Self {
        let by_uid: BTreeMap<_, _> =
            pods.iter().map(|pod| (pod.pod.uid.clone(), pod.clone())).collect();
        let digest = pods_digest(by_uid.values());
        Self { by_uid, digest }
    }

    /// What to say to one who knows `told`.
    fn since(&self, told: Option<&Self>) -> PodsChanged {
        let Some(told) = told else {
            let upserts = self.by_uid.values().cloned().collect();
            return PodsChanged { full: true, upserts, gone: Vec::new() };
        };
        let news = |(uid, pod): &(&String, &PodDevices)| told.by_uid.get(*uid) != Some(*pod);
        let upserts = self.by_uid.iter().filter(news).map(|(_, pod)| pod.clone()).collect();
        let gone = |uid: &&String| !self.by_uid.contains_key(*uid);
        let gone = told.by_uid.keys().filter(gone).cloned().collect();
        PodsChanged { full: false, upserts, gone }
    }
}

// === impl Link ===

impl Link {
    /// A link that is down. `epoch` is the highest that was ever seen.
    pub fn new(me: Me, epoch: u64, delivered: Vec<Delivered>) -> Self {
        let known = |Delivered { place, generation, digest }| (place, (generation, digest));
        Self {
            me,
            epoch,
            phase: Phase::Down,
            inventory: None,
            pods: None,
            reported_inventory: None,
            reported_pods: None,
            delivered: delivered.into_iter().map(known).collect(),
            running: BTreeMap::new(),
            waiting: VecDeque::new(),
            unsent_acks: VecDeque::new(),
            blobs: Blobs::default(),
        }
    }

    /// What is where it should be; asked before a stream is opened, since pods come and go.
    pub fn delivered(&mut self, delivered: Vec<Delivered>) {
        let known = |Delivered { place, generation, digest }| (place, (generation, digest));
        self.delivered = delivered.into_iter().map(known).collect();
    }

    /// The highest epoch seen.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether Welcome was heard.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }

    /// Whether more may be received now. If not, something is being written, and the stream itself makes
    /// the hub wait.
    pub fn reads(&self) -> bool {
        self.blobs.has_room()
    }

    /// How often [`tick`](Self::tick) is to be called.
    pub fn tick_every(&self) -> Duration {
        let most = Duration::from_secs(1);
        match self.phase {
            Phase::Up { ping_every, .. } => (ping_every / 4).clamp(Duration::from_millis(5), most),
            _ => most,
        }
    }

    /// How many bytes of tables are held.
    pub fn held(&self) -> usize {
        self.blobs.held()
    }

    /// A stream is open.
    pub fn connected(&mut self, now: Duration) -> Vec<Output> {
        self.phase = Phase::Greeting { since: now };
        self.waiting.clear();
        self.blobs.new_stream();
        let delivered = |(place, (generation, digest)): (&Place, &(u64, Digest))| Delivered {
            place: place.clone(),
            generation: *generation,
            digest: *digest,
        };
        let Me { node, boot_id, version, instance } = self.me.clone();
        vec![Output::Send(FromAgent::Hello(Hello {
            protocol: PROTOCOL,
            node,
            boot_id,
            version,
            instance,
            inventory: self.inventory.as_ref().map(|(_, digest)| *digest),
            pods: self.pods.as_ref().map(|pods| pods.digest),
            delivered: self.delivered.iter().take(MOST_TABLES).map(delivered).collect(),
        }))]
    }

    /// The stream is gone. Orders that wait are dropped: the hub repeats what is not delivered.
    pub fn disconnected(&mut self) {
        self.phase = Phase::Down;
        self.waiting.clear();
        self.blobs.new_stream();
        self.free_blobs();
    }

    /// The hardware is this. An inventory too large for a message is refused.
    pub fn inventory(&mut self, inventory: Arc<Inventory>) -> Result<Vec<Output>, DeliverError> {
        let size = v1::Inventory::from(&*inventory).encoded_len();
        if size > LARGEST_MESSAGE - 1024 {
            let message = format!("the inventory has {size} bytes; {LARGEST_MESSAGE} are allowed");
            return Err(DeliverError { reason: "inventory-too-large", message });
        }
        let digest = inventory_digest(&inventory);
        self.inventory = Some((inventory, digest));
        Ok(self.report())
    }

    /// The pods that hold devices are these.
    pub fn pods(&mut self, pods: &[PodDevices]) -> Vec<Output> {
        self.pods = Some(Pods::new(pods));
        self.report()
    }

    /// Says what the hub does not know yet.
    fn report(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        if !self.is_up() {
            return outputs;
        }
        if let Some((inventory, digest)) = &self.inventory
            && self.reported_inventory != Some(*digest)
        {
            outputs.push(Output::Send(FromAgent::Inventory(Box::new((**inventory).clone()))));
            self.reported_inventory = Some(*digest);
        }
        if let Some(pods) = &self.pods
            && self.reported_pods.as_ref().map(|told| told.digest) != Some(pods.digest)
        {
            let change = pods.since(self.reported_pods.as_ref());
            outputs.push(Output::Send(FromAgent::Pods(change)));
            self.reported_pods = Some(pods.clone());
        }
        outputs
    }

    /// The hub said this.
    pub fn received(&mut self, now: Duration, message: FromHub) -> Vec<Output> {
        match (self.phase, message) {
            (Phase::Down, _) => Vec::new(),
            (Phase::Greeting { .. }, FromHub::Welcome(welcome)) => self.welcome(now, welcome),
            (_, FromHub::Redirect(address)) => vec![Output::Redirect(address)],
            (Phase::Greeting { .. }, _) => broken("something came before Welcome"),
            (Phase::Up { epoch, ping_every, pinged, pings, .. }, message) => {
                self.phase = Phase::Up { epoch, ping_every, heard: now, pinged, pings };
                self.order(now, epoch, message)
            }
        }
    }

    fn welcome(&mut self, now: Duration, welcome: Welcome) -> Vec<Output> {
        let Welcome { epoch, inventory, pods, ping_every, .. } = welcome;
        if epoch < self.epoch {
            let error = HubError::OlderEpoch { hub: epoch, seen: self.epoch };
            return vec![Output::Disconnect(error)];
        }
        self.epoch = epoch;
        self.phase = Phase::Up { epoch, ping_every, heard: now, pinged: now, pings: 0 };
        // The hub may have forgotten what it was told, or never have got it.
        self.reported_inventory = inventory;
        self.reported_pods = match (&self.pods, self.reported_pods.take()) {
            (Some(own), _) if pods == Some(own.digest) => Some(own.clone()),
            (_, Some(told)) if pods == Some(told.digest) => Some(told),
            _ => None,
        };
        let mut outputs = self.report();
        let unsent_acks = std::mem::take(&mut self.unsent_acks);
        outputs.extend(unsent_acks.into_iter().map(|ack| Output::Send(FromAgent::Ack(ack))));
        outputs
    }

    fn order(&mut self, now: Duration, epoch: u64, message: FromHub) -> Vec<Output> {
        let same = |its: u64| match its {
            _ if its == epoch => Ok(()),
            _ if its < epoch => Err(HubError::OlderEpoch { hub: its, seen: epoch }),
            _ => Err(HubError::Protocol(format!("an order of epoch {its} from a hub of {epoch}"))),
        };
        match message {
            FromHub::Pong(_) => Vec::new(),
            FromHub::Welcome(_) => broken("a second Welcome"),
            FromHub::Redirect(address) => vec![Output::Redirect(address)],
            FromHub::Chunk(chunk) => match self.blobs.take(now, chunk) {
                Ok(()) => Vec::new(),
                Err(problem) => broken(problem),
            },
            FromHub::Deliver { epoch: its, delivery } => match same(its) {
                Err(error) => vec![Output::Disconnect(error)],
                Ok(()) => self.enqueue(Order::Deliver { epoch, delivery }),
            },
            FromHub::Retire { epoch: its, place, generation } => match same(its) {
                Err(error) => vec![Output::Disconnect(error)],
                Ok(()) => self.enqueue(Order::Retire { place, generation }),
            },
        }
    }

    /// Time has passed: pings, and peers that are gone.
    pub fn tick(&mut self, now: Duration) -> Vec<Output> {
        self.blobs.tick(now);
        let reads = self.reads();
        match &mut self.phase {
            Phase::Greeting { since } if now.saturating_sub(*since) > GREETING => {
                vec![Output::Disconnect(HubError::Silent(GREETING))]
            }
            Phase::Down | Phase::Greeting { .. } => Vec::new(),
            Phase::Up { ping_every, heard, pinged, pings, .. } => {
                if !reads {
                    *heard = now;
                }
                let silence = now.saturating_sub(*heard);
                if silence > *ping_every * 3 {
                    return vec![Output::Disconnect(HubError::Silent(silence))];
                }
                if now.saturating_sub(*pinged) < *ping_every {
                    return Vec::new();
                }
                *pinged = now;
                *pings += 1;
                vec![Output::Send(FromAgent::Ping(*pings))]
            }
        }
    }
}

fn broken(problem: impl Into<String>) -> Vec<Output> {
    vec![Output::Disconnect(HubError::Protocol(problem.into()))]
}
