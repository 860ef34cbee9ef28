//! What the agent tells over HTTP: a page for people, JSON for programs, metrics, probes, the log level.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use muster_program::answer;
use muster_program::heartbeat::Heartbeats;
use muster_program::log::LogLevel;
use muster_proto::device::Inventory;
use muster_proto::pod::PodDevices;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::watch;

use crate::deliver::{Deliverer, Table};
use crate::link::LinkStatus;
use crate::problem::{Problem, Problems};

mod metrics;
mod page;

pub use metrics::ProblemCollector;
pub use muster_program::serve::{Caller, serve};

/// Everything that can be asked for. Copies share it.
#[derive(Clone, Debug)]
pub struct Status {
    /// Name of the Node object.
    pub node: String,
    /// When the agent started.
    pub started: jiff::Timestamp,
    /// What names the server in rank tables, as soon as it is known.
    pub server_id: watch::Receiver<Option<String>>,
    /// The latest inventory of the node.
    pub inventory: watch::Receiver<Arc<Inventory>>,
    /// Who holds what.
    pub pods: watch::Receiver<Arc<Vec<PodDevices>>>,
    /// Whether the pods of the node have been listed once.
    pub pods_listed: watch::Receiver<bool>,
    /// The stream to the coordinator; none where there is no coordinator.
    pub link: Option<watch::Receiver<LinkStatus>>,
    /// Who knows the delivered tables.
    pub deliverer: Deliverer,
    /// What is wrong.
    pub problems: Problems,
    /// The metrics that `/metrics` serves.
    pub registry: Arc<Registry>,
    /// The log level.
    pub log: LogLevel,
    /// Whether parts are alive.
    pub heartbeats: Heartbeats,
}

/// All of it at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Name of the Node object.
    pub node: String,
    /// Version of the agent.
    pub version: &'static str,
    /// When the agent started.
    pub started: jiff::Timestamp,
    /// What names the server in rank tables.
    pub server_id: Option<String>,
    /// Why it is not ready, if it is not.
    pub not_ready: Option<&'static str>,
    /// The node's devices, cards and addresses.
    pub inventory: Arc<Inventory>,
    /// Who holds what.
    pub pods: Arc<Vec<PodDevices>>,
    /// The tables on this node, delivered or refused.
    pub tables: Vec<Table>,
    /// The stream to the coordinator.
    pub link: Option<LinkStatus>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

// === impl Status ===

impl Status {
    /// Why the agent is not ready, if it is not.
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.inventory.borrow().settled {
            return Some("the devices are not known yet");
        }
        if self.server_id.borrow().is_none() {
            return Some("the address that names this server is not known yet");
        }
        if !*self.pods_listed.borrow() {
            return Some("the pods of this node have not been listed yet");
        }
        match &self.link {
            Some(link) if link.borrow().connects == 0 => {
                Some("there is no stream to the coordinator")
            }
            _ => None,
        }
    }

    /// All of it now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            server_id: self.server_id.borrow().clone(),
            not_ready: self.not_ready(),
            inventory: self.inventory.borrow().clone(),
            pods: self.pods.borrow().clone(),
            tables: self.deliverer.tables(),
            link: self.link.as_ref().map(|link| link.borrow().clone()),
            problems: self.problems.list(),
        }
    }

    /// What is served.
    pub fn router(self) -> Router {
        Router::new()
            .route("/", get(page))
            .route("/v1", get(all))
            .route("/v1/devices", get(devices))
            .route("/v1/pods", get(pods))
            .route("/v1/tables", get(tables))
            .route("/v1/link", get(link))
            .route("/v1/problems", get(problems))
            .route(
                "/metrics",
                get(async |State(status): State<Self>| answer::metrics(&status.registry)),
            )
            .route("/healthz", get(health))
            .route("/readyz", get(ready))
            .route("/loglevel", get(level).put(set_level))
            .fallback(async || (StatusCode::NOT_FOUND, "see /\n"))
            .layer(axum::extract::DefaultBodyLimit::max(answer::LARGEST_LEVEL))
            .with_state(self)
    }
}

async fn health(State(status): State<Status>, RawQuery(query): RawQuery) -> Response {
    answer::health(&status.heartbeats, query.as_deref(), String::new)
}

async fn page(State(status): State<Status>) -> Response {
    answer::page(page::render(&status.snapshot()))
}

async fn all(State(status): State<Status>) -> Json<Snapshot> {
    Json(status.snapshot())
}

async fn devices(State(status): State<Status>) -> Response {
    let inventory = status.inventory.borrow().clone();
    Json(&*inventory).into_response()
}

async fn pods(State(status): State<Status>) -> Response {
    let pods = status.pods.borrow().clone();
    Json(&*pods).into_response()
}

async fn tables(State(status): State<Status>) -> Json<Vec<Table>> {
    Json(status.deliverer.tables())
}

async fn link(State(status): State<Status>) -> Json<Option<LinkStatus>> {
    Json(status.link.map(|link| link.borrow().clone()))
}

async fn problems(State(status): State<Status>) -> Json<Vec<Problem>> {
    Json(status.problems.list())
}

async fn ready(State(status): State<Status>) -> Response {
    match status.not_ready() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn level(State(status): State<Status>) -> String {
    status.log.get() + "\n"
}

async fn set_level(
    State(status): State<Status>,
    Extension(caller): Extension<Caller>,
    wanted: String,
) -> Response {
    answer::set_level(&status.log, caller, &wanted)
}
