//! What can be asked about a running coordinator: a page for people, JSON, metrics, probes.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use muster_program::answer;
use muster_program::heartbeat::Heartbeats;
use muster_program::log::LogLevel;
use muster_program::serve::Caller;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::watch;

use crate::ranktables::Shown;
use crate::ranktables::status::GroupStatus;
use crate::workloads::modelserving::view::ServingStatus;
use crate::workloads::trainjob::status_view::JobLine;
use crate::workloads::{dijob, modelserving, trainjob};
use muster_hub::Hub;
use muster_runtime::election::Leadership;
use muster_runtime::reflector::WatchAges;
use muster_scheduling::status_view::Configuration;

mod page;

/// Everything that can be asked for. Copies share it.
#[derive(Clone)]
pub struct Status {
    /// What names this coordinator.
    pub identity: String,
    /// When it started.
    pub started: jiff::Timestamp,
    /// Whether it leads.
    pub leadership: watch::Receiver<Leadership>,
    /// Whether everything that it needs has been seen once.
    pub ready: watch::Receiver<bool>,
    /// The hub, which knows the agents.
    pub hub: Hub,
    /// The rank groups.
    pub groups: Shown,
    /// State of the ModelServings.
    pub servings: modelserving::StatusView,
    /// State of the DIJobs.
    pub dijobs: dijob::Caches,
    /// State of the TrainJobs.
    pub jobs: trainjob::StatusView,
    /// State of the scheduler.
    pub scheduling: muster_scheduling::StatusView,
    /// What is counted.
    pub registry: Arc<Registry>,
    /// The log level, which callers on the node can change.
    pub log: LogLevel,
    /// Whether parts and the loops in them are alive.
    pub heartbeats: Heartbeats,
    /// How old what is known of the cluster is.
    pub ages: WatchAges,
}

/// All of it at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// What names this coordinator.
    pub identity: String,
    /// Version of the coordinator.
    pub version: &'static str,
    /// When it started.
    pub started: jiff::Timestamp,
    /// The epoch in which it leads; none if it does not.
    pub epoch: Option<u64>,
    /// Where the leader is, if this is not the one and it is known.
    pub leader: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// The rank groups; only a leader knows them.
    pub groups: Vec<Arc<GroupStatus>>,
    /// The ModelServings; only a leader knows them.
    pub servings: Vec<Arc<ServingStatus>>,
    /// The TrainJobs; only a leader knows them.
    pub jobs: Vec<Arc<JobLine>>,
    /// The scheduler's configuration that is in force; only a leader knows it.
    pub scheduler: Option<Configuration>,
    /// The nodes whose agents have reported.
    pub nodes: Vec<NodeStatus>,
}

/// A node, as its agent reports it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of the Node object.
    pub name: String,
    /// Whether its agent has a stream.
    pub linked: bool,
    /// Version of the agent.
    pub agent: Option<String>,
    /// What names it in tables.
    pub server_id: Option<String>,
    /// How many devices the agent reports.
    pub devices: usize,
    /// Those that are faulty.
    pub faulty: usize,
}

// === impl Status ===

impl Status {
    /// All of it now.
    pub fn snapshot(&self) -> Snapshot {
        let (epoch, leader) = match &*self.leadership.borrow() {
            Leadership::Leading(fence) => (Some(fence.epoch()), None),
            Leadership::Standby { leader } => (None, leader.clone()),
        };
        Snapshot {
            identity: self.identity.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            epoch,
            leader,
            ready: *self.ready.borrow(),
            groups: self.groups.all(),
            servings: self.servings.all(),
            jobs: self.jobs.all(),
            scheduler: self.scheduling.configuration(),
            nodes: self.nodes(),
        }
    }

    fn nodes(&self) -> Vec<NodeStatus> {
        let sessions = self.hub.sessions();
        let known = self.hub.inventories();
        let agent = |name: &str| sessions.iter().find(|session| session.node == name);
        let node = |(name, inventory): (String, Arc<muster_proto::device::Inventory>)| {
            let session = agent(&name);
            let faulty = |device: &&muster_proto::device::Device| {
                matches!(device.health, muster_proto::device::Health::Faulty(_))
            };
            NodeStatus {
                linked: session.is_some(),
                agent: session.map(|session| session.version.clone()),
                server_id: inventory.server_id.clone(),
                devices: inventory.devices.len(),
                faulty: inventory.devices.iter().filter(faulty).count(),
                name,
            }
        };
        known.into_iter().map(node).collect()
    }

    /// What is served.
    pub fn router(self) -> Router {
        Router::new()
            .route("/", get(page))
            .route("/v1", get(async |State(status): State<Self>| Json(status.snapshot())))
            .route(
                "/v1/groups",
                get(async |State(status): State<Self>| Json(status.snapshot().groups)),
            )
            .route(
                "/v1/servings",
                get(async |State(status): State<Self>| Json(status.servings.all())),
            )
            .route(
                "/v1/dijobs",
                get(async |State(status): State<Self>| {
                    Json(dijob::status_view::all(&status.dijobs))
                }),
            )
            .route("/v1/trainjobs", get(async |State(status): State<Self>| Json(status.jobs.all())))
            .route(
                "/v1/scheduler",
                get(async |State(status): State<Self>| Json(status.scheduling.configuration())),
            )
            .route("/v1/nodes", get(async |State(status): State<Self>| Json(status.nodes())))
            .route(
                "/metrics",
                get(async |State(status): State<Self>| answer::metrics(&status.registry)),
            )
            .route("/healthz", get(health))
            .route("/readyz", get(ready))
            .route(
                "/loglevel",
                get(async |State(status): State<Self>| status.log.get() + "\n").put(set_level),
            )
            .fallback(async || (StatusCode::NOT_FOUND, "see /\n"))
            .layer(axum::extract::DefaultBodyLimit::max(answer::LARGEST_LEVEL))
            .with_state(self)
    }
}

async fn page(State(status): State<Status>) -> Response {
    answer::page(page::render(&status.snapshot()))
}

async fn health(State(status): State<Status>, RawQuery(query): RawQuery) -> Response {
    let ages = || status.ages.describe(Instant::now());
    answer::health(&status.heartbeats, query.as_deref(), ages)
}

async fn ready(State(status): State<Status>) -> Response {
    match *status.ready.borrow() {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "caches or certificates are not there yet\n")
            .into_response(),
    }
}

async fn set_level(
    State(status): State<Status>,
    Extension(caller): Extension<Caller>,
    wanted: String,
) -> Response {
    answer::set_level(&status.log, caller, &wanted)
}
