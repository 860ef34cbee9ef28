//! The hub: one stream per agent.
//!
//! ```text
//!   agent ──stream──▶ server ──▶ registry ──▶ inventories, pods, what is delivered ──▶ controllers
//!     ▲                             │                                                      │
//!     └──────── queue ◀─────────────┴──── dispatch ◀────────── deliver, retire ◀───────────┘
//!                 (bounded)                  (blob: packed once, shared by all peers)
//! ```
//!
//! A stream speaks for the node that its token is bound to, and for no other; it receives tables of pods that are on
//! that node, and of no others. Only a hub that leads welcomes agents, and only it asks about their tokens; others name the leader.
//! Its epoch is in every order.
//! A peer that does not keep up is cut off: when it comes back it says what it has, and gets what differs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_program::connections::{ConnectionLimits, Connections};
use muster_proto::delivery::Place;
use muster_proto::device::Inventory;
use muster_proto::link::LARGEST_MESSAGE;
use muster_proto::pod::PodDevices;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::Instant;
use tonic::Status;

mod accept;
pub mod authenticate;
pub mod blob;
mod connection;
pub mod dispatch;
pub mod metrics;
pub mod pace;
mod peer;
pub mod queue;
pub mod registry;
pub mod server;

use authenticate::Authenticate;
use blob::{Blob, Blobs, PackError};
use metrics::Metrics;
use queue::Queue;
use registry::{AgentReport, Registry, Session, TableReport, Tables};

/// Changes that a slow subscriber may miss before it must look at everything again.
const CHANGES_KEPT: usize = 4096;

/// No TLS handshake takes longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Limits and times.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Streams at once.
    pub most_peers: usize,
    /// Connections at once, also of those who have shown no token yet. Those without a stream make room for newcomers.
    pub most_connections: usize,
    /// Connections of one IPv4 address or one /64 of IPv6. Nodes mostly have addresses of their own; this is for those behind one
    /// address translation.
    pub most_connections_per_source: usize,
    /// Orders that wait for one peer.
    pub most_orders: usize,
    /// How often agents ping; three times this without a word ends a stream.
    pub ping_every: Duration,
    /// How long an agent may take to say Hello. A connection without a stream ends after twice this.
    pub hello_within: Duration,
    /// How long a peer may let a message wait before it is cut off.
    pub stalled_after: Duration,
    /// Messages per second that are read from one peer.
    pub most_messages: u32,
    /// Bytes per second that are read from one peer.
    pub most_bytes: usize,
    /// How old a stream may get, give or take a fifth; then its agent must show its token again.
    pub stream_age: Duration,
    /// The version to tell agents.
    pub version: String,
}

/// Whether this hub leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does, in this epoch.
    Leader {
        /// Grows with every change of leader.
        epoch: u64,
    },
    /// It does not; agents are sent to this address, if one is known.
    Standby {
        /// `https://host:port`.
        leader: Option<String>,
    },
}

/// Something about a node has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The node.
    pub node: String,
    /// What.
    pub what: What,
    /// When the hub heard of it.
    pub at: Instant,
}

/// What may change about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Whether it has a stream.
    Session,
    /// Its hardware.
    Inventory,
    /// Its pods.
    Pods,
    /// What is delivered or refused.
    Tables,
}

/// The hub. Copies share it.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    state: Mutex<State>,
    changes: broadcast::Sender<Changed>,
    blobs: Blobs,
    metrics: Metrics,
    connections: Connections,
    authenticate: Arc<dyn Authenticate>,
    peers: Arc<Semaphore>,
    /// Streams of each node, also those that have not said Hello.
    streams: Mutex<HashMap<String, usize>>,
}

struct State {
    role: Role,
    registry: Registry,
    queues: HashMap<String, (u64, Arc<Queue>)>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            most_peers: 20_000,
            most_connections: 20_000 + 1024,
            most_connections_per_source: 8192,
            most_orders: 1024,
            ping_every: Duration::from_secs(10),
            hello_within: Duration::from_secs(10),
            stalled_after: Duration::from_secs(30),
            most_messages: 200,
            most_bytes: LARGEST_MESSAGE,
            stream_age: Duration::from_secs(3600),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Settings {
    fn connection_limits(&self) -> ConnectionLimits {
        let idle = self.idle_connection();
        ConnectionLimits {
            most: self.most_connections,
            most_per_source: self.most_connections_per_source,
            handshake: HANDSHAKE,
            // What comes after the handshake is a stream, or ends with the connection that is of no use.
            head: idle,
            body: idle,
            idle,
            lasts: self.stream_age.saturating_mul(2),
        }
    }

    /// How long a connection may be without a stream: once for TLS and the review of the token, once for the agent itself.
    fn idle_connection(&self) -> Duration {
        self.hello_within.saturating_mul(2)
    }
}

// === impl Hub ===

impl Hub {
    /// A hub without peers.
    pub fn new(settings: Settings, role: Role, authenticate: Arc<dyn Authenticate>) -> Self {
        let peers = Arc::new(Semaphore::new(settings.most_peers));
        let state = State { role, registry: Registry::default(), queues: HashMap::new() };
        let connections = Connections::new(settings.connection_limits());
        let metrics = Metrics { closed_connections: connections.closed(), ..Metrics::default() };
        let inner = Inner {
            settings,
            state: Mutex::new(state),
            changes: broadcast::channel(CHANGES_KEPT).0,
            blobs: Blobs::default(),
            metrics,
            connections,
            authenticate,
            peers,
            streams: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes another role. Every stream ends, and agents come back to whoever leads. What was wanted and what was known
    /// is forgotten: another may have led since, and been told something else.
    pub fn set_role(&self, role: Role) {
        let mut state = self.inner.state.lock();
        if state.role == role {
            return;
        }
        state.role = role;
        state.registry.begin_epoch();
        for (_, (_, queue)) in std::mem::take(&mut state.queues) {
            queue.cut(ended(Status::unavailable("the hub's role has changed"), "role"));
        }
        self.inner.metrics.peers.set(0);
    }

    /// Every stream ends.
    pub fn cut_all(&self) {
        for (_, queue) in self.inner.state.lock().queues.values() {
            queue.cut(ended(Status::unavailable("the hub stops"), "stopping"));
        }
    }

    /// Packs a table, or finds it packed. Takes milliseconds per megabyte: not for an async task.
    pub fn pack(&self, table: &[u8]) -> Result<Arc<Blob>, PackError> {
        self.inner.blobs.pack(table, &self.inner.metrics.packed)
    }

    /// Hears of changes. Who is told that it lagged must look at everything again.
    pub fn subscribe(&self) -> broadcast::Receiver<Changed> {
        self.inner.changes.subscribe()
    }

    /// The hardware of every node that has reported, also of those that are away now.
    pub fn inventories(&self) -> BTreeMap<String, Arc<Inventory>> {
        self.inner.state.lock().registry.inventories()
    }

    /// The hardware of one node.
    pub fn inventory(&self, node: &str) -> Option<Arc<Inventory>> {
        self.inner.state.lock().registry.inventory(node)
    }

    /// The pods with devices of every node that has reported.
    pub fn pods(&self) -> BTreeMap<String, Vec<Arc<PodDevices>>> {
        self.inner.state.lock().registry.pods()
    }

    /// The pods with devices of one node.
    pub fn pods_of(&self, node: &str) -> Vec<Arc<PodDevices>> {
        self.inner.state.lock().registry.pods_of(node)
    }

    /// What the agent of a node says about one of its pods.
    pub fn agent_report(&self, node: &str, uid: &str) -> Option<AgentReport> {
        self.inner.state.lock().registry.agent_report(node, uid)
    }

    /// What is known of a table at a place of a node.
    pub fn table_report(&self, node: &str, place: &Place) -> TableReport {
        self.inner.state.lock().registry.table_report(node, place)
    }

    /// What is wanted, delivered and refused on a node.
    pub fn tables(&self, node: &str) -> Option<Tables> {
        self.inner.state.lock().registry.tables(node)
    }

    /// The streams that are welcomed.
    pub fn sessions(&self) -> Vec<Session> {
        self.inner.state.lock().registry.sessions()
    }

    /// A node has left the cluster: it is forgotten, one that has a stream when that ends. Whether it is forgotten by now.
    pub fn forget(&self, node: &str) -> bool {
        self.inner.state.lock().registry.forget(node)
    }

    /// Counters.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    fn changed(&self, node: &str, what: What) {
        // Nobody may listen yet.
        let _ =
            self.inner.changes.send(Changed { node: node.to_owned(), what, at: Instant::now() });
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

/// A status with the word that agents tell apart.
fn ended(mut status: Status, reason: &'static str) -> Status {
    status
        .metadata_mut()
        .insert("muster-reason", tonic::metadata::MetadataValue::from_static(reason));
    status
}
