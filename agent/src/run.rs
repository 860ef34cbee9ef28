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
use muster_proto::device::Inventory;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::annotate;
use crate::deliver::{self, Deliverer};
use crate::directories::Directories;
use crate::discover::{self, net::ServerIdSource};
use crate::kubelet::{self, device_id::ResourceNames};
use crate::link::{self, LinkStatus};
use crate::log::LogLevel;
use crate::pods::{self, KnownPods, PodMap};
use crate::problem::Problems;
use crate::server_id;
use crate::status::{self, ProblemCollector, Status};

mod program;

pub use program::main;

/// How long parts may take to end.
const DRAIN: Duration = Duration::from_millis(1500);

/// How long the coordinator is not spoken to while there is nothing to tell it.
const PATIENCE: Duration = Duration::from_secs(12);

/// Everything that an agent has to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the Node object.
    pub node: String,
    /// How devices are found.
    pub discover: discover::Settings,
    /// The kubelet's directory, as a path of the node.
    pub kubelet_root: String,
    /// Directory for what must survive a restart.
    pub state_dir: PathBuf,
    /// Which address names this server.
    pub server_id: ServerIdSource,
    /// The resources whose devices are ours.
    pub resources: ResourceNames,
    /// The coordinator.
    pub coordinator: Option<link::Settings>,
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

// === impl Settings ===

impl Settings {
    /// An agent of this node on this host, with a state directory of its own, that talks to nobody.
    pub fn new(node: &str, discover: discover::Settings, state_dir: impl Into<PathBuf>) -> Self {
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
        settings: Settings,
        client: Client,
        directories: Directories,
        log: LogLevel,
        problems: Problems,
    ) -> anyhow::Result<Self> {
        let Settings {
            node,
            discover,
            kubelet_root,
            state_dir,
            server_id,
            resources,
            coordinator,
            listen,
        } = settings;
        let host = discover.host.clone();
        let mut registry = Registry::with_prefix("muster_agent");
        registry.register_collector(Box::new(ProblemCollector(problems.clone())));
        register_info(&mut registry);
        let listener = match listen {
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                Some(listener.with_context(|| format!("--listen {address}"))?)
            }
            None => None,
        };
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();

        let (inventory, seen) = watch::channel(Arc::new(Inventory::default()));
        let metrics = discover::Metrics::default();
        metrics.register(&mut registry);
        let (watching, troubles) = (directories.clone(), problems.clone());
        part(
            &mut parts,
            &stop,
            "discover",
            discover::follow(discover, watching, troubles, metrics, inventory),
        );

        let (pod_map, known) = watch::channel(Arc::new(PodMap::default()));
        let (listed, pods_listed) = watch::channel(false);
        let (its_node, names, troubles) = (node.clone(), resources.clone(), problems.clone());
        let its_client = client.clone();
        part(&mut parts, &stop, "pods", async move {
            pods::follow(its_client, &its_node, names, pod_map, listed, troubles).await;
        });

        let (held, holders) = watch::channel(Arc::default());
        let (heard, pods_heard) = watch::channel(false);
        let channels = kubelet::Channels {
            pods: known.clone(),
            inventory: seen.clone(),
            listed: pods_listed.clone(),
            out: held,
            heard,
        };
        let its = kubelet::Settings {
            root: kubelet_root.clone(),
            resources,
            ..kubelet::Settings::default()
        };
        let (its_host, troubles) = (host.clone(), problems.clone());
        part(&mut parts, &stop, "kubelet", async move {
            kubelet::follow(its_host, its, &directories, channels, troubles).await;
        });

        let (chosen, named) = watch::channel(None);
        let (its_client, its_node) = (client.clone(), node.clone());
        let following = server_id::follow(
            server_id,
            its_client,
            its_node,
            seen.clone(),
            problems.clone(),
            chosen,
        );
        part(&mut parts, &stop, "server id", following);

        let metrics = annotate::Metrics::register(&mut registry);
        let sources = annotate::Sources {
            pods: known.clone(),
            devices: holders.clone(),
            inventory: seen.clone(),
            server_id: named.clone(),
        };
        part(
            &mut parts,
            &stop,
            "annotate",
            annotate::run(client, sources, problems.clone(), metrics),
        );

        let metrics = deliver::Metrics::default();
        metrics.register(&mut registry);
        let its = deliver::Settings {
            kubelet: kubelet_root,
            state: state_dir,
            ..deliver::Settings::default()
        };
        let on_node = Arc::new(KnownPods(known.clone()));
        let deliverer = Deliverer::new(host.clone(), its, on_node, problems.clone(), metrics);
        part(&mut parts, &stop, "prune", prune(deliverer.clone(), known, pods_listed.clone()));

        let mut link = None;
        if let Some(settings) = coordinator {
            let me = link::Me::on(&node, &host);
            let (client, status) = link::Client::new(
                settings,
                me,
                Arc::new(deliverer.clone()),
                seen.clone(),
                holders.clone(),
                problems.clone(),
            );
            register_link(&mut registry, status.clone());
            link = Some(status);
            let (its_stop, its_inventory) = (stop.clone(), seen.clone());
            // It says goodbye by itself when it is told to stop.
            parts.spawn(async move {
                tokio::select! {
                    () = its_stop.cancelled() => {}
                    () = something_to_say(its_inventory, pods_heard) => client.run(its_stop).await,
                }
                "link"
            });
        }

        let status = Status {
            node,
            started: jiff::Timestamp::now(),
            server_id: named,
            inventory: seen,
            pods: holders,
            pods_listed,
            link,
            deliverer,
            problems,
            registry: Arc::new(registry),
            log,
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        if let Some(listener) = listener {
            let router = status.clone().router();
            part(&mut parts, &stop, "status", status::serve(listener, router, stop.clone()));
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
        match self.parts.join_next().await {
            Some(Ok(part)) => anyhow::anyhow!("the part {part:?} ended by itself"),
            Some(Err(error)) => anyhow::anyhow!("a part ended: {error}"),
            None => anyhow::anyhow!("no part is left"),
        }
    }

    /// Ends all parts. Tables that are being written are finished or left out, never half there.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ending = async { while self.parts.join_next().await.is_some() {} };
        // What takes longer is dropped with the value: a temporary file may stay, and is removed next time.
        let _late = tokio::time::timeout(DRAIN, ending).await;
    }
}

/// Starts a part that ends when told to.
fn part(
    parts: &mut JoinSet<&'static str>,
    stop: &CancellationToken,
    name: &'static str,
    body: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    parts.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = body => {}
        }
        name
    });
}

/// Returns when the devices and their holders are known: a coordinator that remembers them from before must not be told
/// that there are none. A kubelet that says nothing delays it by [`PATIENCE`] only.
async fn something_to_say(
    mut inventory: watch::Receiver<Arc<Inventory>>,
    mut heard: watch::Receiver<bool>,
) {
    let known = async {
        // An error means that the agent is ending.
        let settled = inventory.wait_for(|inventory| inventory.settled).await.map(drop);
        let heard = heard.wait_for(|heard| *heard).await.map(drop);
        settled.and(heard)
    };
    let _late = tokio::time::timeout(PATIENCE, known).await;
}

/// Forgets tables of pods that are gone.
async fn prune(
    deliverer: Deliverer,
    mut pods: watch::Receiver<Arc<PodMap>>,
    mut listed: watch::Receiver<bool>,
) {
    // Before the first listing no pod is known, which does not mean that none is there.
    if listed.wait_for(|listed| *listed).await.is_err() {
        return;
    }
    loop {
        let live = pods.borrow_and_update().values().map(|pod| pod.pod.uid.clone()).collect();
        deliverer.prune(&live);
        if pods.changed().await.is_err() {
            return;
        }
    }
}

fn register_info(registry: &mut Registry) {
    let info = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    info.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("build_info", "The agent's version; the value is always 1", info);
}

fn register_link(registry: &mut Registry, status: watch::Receiver<LinkStatus>) {
    registry.register_collector(Box::new(link::LinkCollector(status)));
}
