//! Where trainers report how far they are, if the gate `TrainJobStatus` is on: over HTTPS, at the path of their job.
//!
//! ```text
//!   trainer ──POST, token──▶ whose? ──TokenReview──▶ API server
//!                              └── report ──apply, as trainer-status──▶ status of the TrainJob
//! ```
//!
//! What is read and who may report is decided by [`muster_pipeline::report`]. Every coordinator serves, also one that does not
//! lead: a report changes only what is its own, so nobody need agree on it.

mod answer;
pub mod metrics;
mod said;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::Client;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use metrics::Metrics;
use muster_program::connections::{ConnectionLimits, Connections};
use muster_serving::https;

/// How long a request may take, with all that it makes the API server do.
const PATIENCE: Duration = Duration::from_secs(10);

/// What trainers may do. Each of them has an address of its own, unless its pod is in the node's network.
const LIMITS: ConnectionLimits = ConnectionLimits {
    most: 1024,
    most_per_source: 64,
    handshake: PATIENCE,
    head: PATIENCE,
    body: PATIENCE,
    idle: Duration::from_secs(30),
    lasts: Duration::from_secs(120),
};

/// Reports that are worked on at once; others wait.
const MOST: usize = 16;

/// Takes reports.
pub struct Reports {
    client: Client,
    slots: Semaphore,
    metrics: Metrics,
}

// === impl Reports ===

impl Reports {
    /// Asks and writes through this client.
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self { client, slots: Semaphore::new(MOST), metrics }
    }

    /// Serves until stopped.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        stop: CancellationToken,
    ) {
        let open = self.metrics.connections.clone();
        let router = Router::new().fallback(answer::answer).with_state(Arc::new(self));
        https::serve(listener, tls, router, &Connections::new(LIMITS), &open, stop).await;
    }
}
