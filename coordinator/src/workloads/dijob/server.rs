//! The DI server: running coordinators of DIJobs ask here for collectors and learners.
//!
//! ```text
//!   DI-engine ──HTTP──▶ serve ──bytes──▶ answer ──▶ begin (pure) ──▶ one write after another ──▶ answer
//!                                          │                                  │
//!                                          └── view: the cache ◀── what was made or deleted
//! ```
//!
//! What is decided, is decided by [`muster_dijob::server`], also whose requests count. The leader answers; others hand requests
//! on to it, with the caller's address. Requests of one job that write come one after the other.

mod admit;
mod answer;
mod forward;
pub mod handed;
pub mod metrics;
mod perform;
mod remembered;
mod serve;
mod tokens;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch};

use crate::workloads::Key;
use crate::workloads::dijob::{self, Caches};
pub use forward::Peers;
pub use metrics::Metrics;
use muster_dijob::server::Trust;
use muster_runtime::election::Leadership;
use muster_runtime::locks::Locks;
use muster_serving::certs::Certificates;

/// What callers may do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Connections at once; who comes later waits.
    pub most_connections: usize,
    /// How long the body of a request may take.
    pub patience: Duration,
    /// How long a request may take, with what it waits for.
    pub longest: Duration,
    /// How long a connection may be without a request, or its head may take: there is one clock for both. DI-engine asks once
    /// a second.
    pub lasts: Duration,
    /// Whose requests count.
    pub trust: Trust,
    /// Where others listen that do not share our port.
    pub peers: Peers,
}

/// The DI server. Copies share it.
#[derive(Clone)]
pub struct DiServer {
    caches: Caches,
    client: Client,
    leadership: watch::Receiver<Leadership>,
    jobs: dijob::Settings,
    settings: Settings,
    locks: Locks<Key>,
    metrics: Metrics,
    /// What coordinators alone know.
    certificates: Certificates,
    proofs: Arc<handed::Proofs>,
    lookups: Arc<admit::Lookups>,
    reviews: Arc<tokens::Reviews>,
    large_bodies: Arc<Semaphore>,
    /// What is asked of another leader goes to this port.
    port: u16,
}

/// What a server is put together from.
pub struct Parts {
    /// What it looks at.
    pub caches: Caches,
    /// The API server.
    pub client: Client,
    /// Whether this coordinator leads.
    pub leadership: watch::Receiver<Leadership>,
    /// How pods are made.
    pub jobs: dijob::Settings,
    /// By which coordinators know each other.
    pub certificates: Certificates,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 8080)),
            most_connections: 4096,
            patience: Duration::from_secs(10),
            longest: Duration::from_secs(30),
            lasts: Duration::from_secs(10),
            trust: Trust::default(),
            peers: Peers::default(),
        }
    }
}

// === impl DiServer ===

impl DiServer {
    /// A server that listens at this port.
    pub fn new(parts: Parts, settings: Settings, port: u16) -> Arc<Self> {
        let Parts { caches, client, leadership, jobs, certificates } = parts;
        Arc::new(Self {
            reviews: Arc::new(tokens::Reviews::new(client.clone())),
            caches,
            client,
            leadership,
            jobs,
            settings,
            locks: Locks::default(),
            metrics: Metrics::default(),
            certificates,
            proofs: Arc::default(),
            lookups: Arc::default(),
            large_bodies: Arc::new(Semaphore::new(answer::MOST_LARGE_BODIES)),
            port,
        })
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
