//! `muster-agent run`: all parts of the agent, wired.
//!
//! ```text
//!   discover ──inventory──┬───────────┬──────────────▶ link ──orders──▶ deliver
//!   pods ──▶ kubelet ─────┴──held─────┼──▶ annotate     ▲                  ▲
//!     │        └──────────────────────┼─────────────────┘                  │
//!     └──────── server id ────────────┘        pods of this node ──────────┘
//! ```
//!
//! Each part is a task; they share nothing but channels that hold the latest value. No part should end by itself: the
//! first that does ends the agent, which its DaemonSet starts anew.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use muster_program::log::LogLevel;
use muster_program::parts;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::annotate;
use crate::directories::Directories;
use crate::discover::{self, net::ServerIdSource};
use crate::kubelet::device_id::ResourceNames;
use crate::link;
use crate::problem::Problems;
use crate::status::{self, Status};

mod program;
mod wiring;

pub use program::main;
use wiring::Wiring;

/// How long parts may take to end.
const DRAIN: Duration = Duration::from_millis(1500);

/// Everything that an agent has to know.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Name of the Node object.
    pub node: String,
    /// How devices are found.
    pub discover: discover::DiscoverySettings,
    /// The kubelet's directory, as a path of the node.
    pub kubelet_root: String,
    /// Directory for what must survive a restart.
    pub state_dir: PathBuf,
    /// Which address names this server.
    pub server_id: ServerIdSource,
    /// The resources whose devices are ours.
    pub resources: ResourceNames,
    /// How to reach the coordinator; none: the agent only annotates.
    pub coordinator: Option<link::LinkSettings>,
    /// Where to serve the status; none: nowhere.
    pub listen: Option<SocketAddr>,
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    status: Status,
    address: Option<SocketAddr>,
    stop: CancellationToken,
    parts: JoinSet<&'static str>,
}

// === impl AgentSettings ===

impl AgentSettings {
    /// An agent of this node on this host, with a state directory of its own, that talks to nobody.
    pub fn new(
        node: &str,
        discover: discover::DiscoverySettings,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            node: node.to_owned(),
            discover,
            kubelet_root: "/var/lib/kubelet".to_owned(),
            state_dir: state_dir.into(),
            server_id: ServerIdSource::InternalIp,
            resources: ResourceNames::default(),
            coordinator: None,
            listen: None,
        }
    }
}

// === impl Agent ===

impl Agent {
    /// Starts all parts. Agents of one process share the `directories`.
    pub async fn start(
        settings: AgentSettings,
        client: Client,
        directories: Directories,
        log: LogLevel,
        problems: Problems,
    ) -> anyhow::Result<Self> {
        let listener = match settings.listen {
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                Some(listener.with_context(|| format!("--listen {address}"))?)
            }
            None => None,
        };
        let node = settings.node.clone();
        let mut wiring = Wiring::new(settings, client, directories, problems.clone());
        let inventory = wiring.discover();
        let (pods, pods_listed) = wiring.pods();
        let (held, heard) = wiring.kubelet(&pods, &pods_listed, &inventory);
        let server_id = wiring.server_id(&inventory);
        wiring.annotate(annotate::AnnotateInputs {
            pods: pods.clone(),
            devices: held.clone(),
            inventory: inventory.clone(),
            server_id: server_id.clone(),
        });
        let deliverer = wiring.deliver(&pods, &pods_listed);
        let named = wiring.named(&inventory, &server_id);
        let link = wiring.link(&deliverer, &named, &held, heard);
        let Wiring { registry, heartbeats, stop, mut parts, .. } = wiring;
        let status = Status {
            node,
            started: jiff::Timestamp::now(),
            server_id,
            inventory,
            pods: held,
            pods_listed,
            link,
            deliverer,
            problems,
            registry: Arc::new(registry),
            log,
            heartbeats,
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        if let Some(listener) = listener {
            let serving = status::serve(listener, status.clone().router(), stop.clone());
            parts.spawn(async move {
                serving.await;
                "status"
            });
        }
        Ok(Self { status, address, stop, parts })
    }

    /// What can be asked.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Where the status is served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns when a part has ended though nobody asked it to; says which.
    pub async fn failed(&mut self) -> anyhow::Error {
        parts::failed(&mut self.parts).await
    }

    /// Ends all parts. Tables that are being written are finished or left out, never half there.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // What takes longer is dropped with the value: a temporary file may stay, and is removed next time.
        let _done = parts::drain(&mut self.parts, DRAIN).await;
    }
}
