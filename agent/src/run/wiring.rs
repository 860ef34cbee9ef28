//! The parts of an agent and the channels between them, one part per function.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use muster_program::heartbeat::{self, Heartbeats, LIMIT};
use muster_proto::device::Inventory;
use muster_proto::pod::PodDevices;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::AgentSettings;
use crate::deliver::{self, Deliverer};
use crate::directories::Directories;
use crate::link::{self, LinkStatus};
use crate::pods::{KnownPods, PodMap};
use crate::problem::Problems;
use crate::status::ProblemCollector;
use crate::{annotate, discover, kubelet, pods, server_id};

/// How long the coordinator is not spoken to while there is nothing to tell it.
const PATIENCE: Duration = Duration::from_secs(12);

type Latest<T> = watch::Receiver<Arc<T>>;

/// An agent that is being put together.
pub(super) struct Wiring {
    settings: AgentSettings,
    client: Client,
    directories: Directories,
    problems: Problems,
    pub registry: Registry,
    /// Whether parts are alive.
    pub heartbeats: Heartbeats,
    /// Tells all parts to end.
    pub stop: CancellationToken,
    /// What runs already.
    pub parts: JoinSet<&'static str>,
}

// === impl Wiring ===

impl Wiring {
    pub fn new(
        settings: AgentSettings,
        client: Client,
        directories: Directories,
        problems: Problems,
    ) -> Self {
        let mut registry = Registry::with_prefix("muster_agent");
        registry.register_collector(Box::new(ProblemCollector(problems.clone())));
        let info = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        info.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "The agent's version; the value is always 1", info);
        let (stop, parts) = (CancellationToken::new(), JoinSet::new());
        let heartbeats = Heartbeats::default();
        Self { settings, client, directories, problems, registry, heartbeats, stop, parts }
    }

    /// Starts a part that ends when told to.
    fn start(&mut self, name: &'static str, body: impl Future<Output = ()> + Send + 'static) {
        let (stop, heart) = (self.stop.clone(), self.heartbeats.register(name, LIMIT));
        self.parts.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = heartbeat::beating(heart, body) => {}
            }
            name
        });
    }

    /// Devices, cards and addresses of the node.
    pub fn discover(&mut self) -> Latest<Inventory> {
        let (inventory, seen) = watch::channel(Arc::new(Inventory::default()));
        let metrics = discover::Metrics::default();
        metrics.register(&mut self.registry);
        let (settings, problems) = (self.settings.discover.clone(), self.problems.clone());
        let directories = self.directories.clone();
        self.start(
            "discover",
            discover::follow(settings, directories, problems, metrics, inventory),
        );
        seen
    }

    /// The pods of the node, and whether all of them have been seen once.
    pub fn pods(&mut self) -> (Latest<PodMap>, watch::Receiver<bool>) {
        let (pods, known) = watch::channel(Arc::new(PodMap::default()));
        let (listed, all) = watch::channel(false);
        let (client, problems) = (self.client.clone(), self.problems.clone());
        let AgentSettings { node, resources, .. } = self.settings.clone();
        self.start("pods", async move {
            pods::follow(client, &node, resources, pods, listed, problems).await;
        });
        (known, all)
    }

    /// Who holds what, and whether that has been found out once.
    pub fn kubelet(
        &mut self,
        pods: &Latest<PodMap>,
        listed: &watch::Receiver<bool>,
        inventory: &Latest<Inventory>,
    ) -> (Latest<Vec<PodDevices>>, watch::Receiver<bool>) {
        let (out, held) = watch::channel(Arc::default());
        let (heard, known) = watch::channel(false);
        let (pods, listed, inventory) = (pods.clone(), listed.clone(), inventory.clone());
        let channels = kubelet::Channels { pods, inventory, listed, out, heard };
        let AgentSettings { kubelet_root: root, resources, discover, .. } = self.settings.clone();
        let settings =
            kubelet::KubeletSettings { root, resources, ..kubelet::KubeletSettings::default() };
        let (directories, problems) = (self.directories.clone(), self.problems.clone());
        self.start("kubelet", async move {
            kubelet::follow(discover.host, settings, &directories, channels, problems).await;
        });
        (held, known)
    }

    /// The address that names this server.
    pub fn server_id(&mut self, inventory: &Latest<Inventory>) -> watch::Receiver<Option<String>> {
        let (chosen, named) = watch::channel(None);
        let AgentSettings { server_id, node, .. } = self.settings.clone();
        let (client, problems) = (self.client.clone(), self.problems.clone());
        let inventory = inventory.clone();
        let body = server_id::follow(server_id, client, node, inventory, problems, chosen);
        self.start("server id", body);
        named
    }

    /// Writes the annotations of this node's pods.
    pub fn annotate(&mut self, sources: annotate::AnnotateInputs) {
        let metrics = annotate::Metrics::register(&mut self.registry);
        let (client, problems) = (self.client.clone(), self.problems.clone());
        self.start("annotate", annotate::run(client, sources, problems, metrics));
    }

    /// Who writes tables; it forgets those of pods that are gone.
    pub fn deliver(&mut self, pods: &Latest<PodMap>, listed: &watch::Receiver<bool>) -> Deliverer {
        let metrics = deliver::Metrics::default();
        metrics.register(&mut self.registry);
        let AgentSettings { kubelet_root: kubelet, state_dir: state, discover, .. } =
            self.settings.clone();
        let settings =
            deliver::DeliverySettings { kubelet, state, ..deliver::DeliverySettings::default() };
        let on_node = Arc::new(KnownPods(pods.clone()));
        let problems = self.problems.clone();
        let deliverer = Deliverer::new(discover.host, settings, on_node, problems, metrics);
        self.start("prune", prune(deliverer.clone(), pods.clone(), listed.clone()));
        deliverer
    }

    /// The hardware together with the address that names the server, for those who are elsewhere.
    pub fn named(
        &mut self,
        inventory: &Latest<Inventory>,
        server_id: &watch::Receiver<Option<String>>,
    ) -> Latest<Inventory> {
        let (named, seen) = watch::channel(Arc::new(Inventory::default()));
        let (mut inventory, mut server_id) = (inventory.clone(), server_id.clone());
        self.start("named", async move {
            loop {
                let mut whole = (**inventory.borrow_and_update()).clone();
                whole.server_id.clone_from(&server_id.borrow_and_update());
                named.send_replace(Arc::new(whole));
                tokio::select! {
                    changed = inventory.changed() => if changed.is_err() { return },
                    changed = server_id.changed() => if changed.is_err() { return },
                }
            }
        });
        seen
    }

    /// The stream to the coordinator, where there is one.
    pub fn link(
        &mut self,
        deliverer: &Deliverer,
        inventory: &Latest<Inventory>,
        held: &Latest<Vec<PodDevices>>,
        heard: watch::Receiver<bool>,
    ) -> Option<watch::Receiver<LinkStatus>> {
        let AgentSettings { coordinator, node, discover, .. } = self.settings.clone();
        let me = link::Me::on(&node, &discover.host);
        let (deliver, problems) = (Arc::new(deliverer.clone()), self.problems.clone());
        let (client, status) =
            link::Client::new(coordinator?, me, deliver, inventory.clone(), held.clone(), problems);
        self.registry.register_collector(Box::new(link::LinkCollector(status.clone())));
        let (stop, inventory) = (self.stop.clone(), inventory.clone());
        let heart = self.heartbeats.register("link", LIMIT);
        // It says goodbye by itself when it is told to stop.
        self.parts.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = something_to_say(inventory, heard) => {
                    heartbeat::beating(heart, client.run(stop)).await;
                }
            }
            "link"
        });
        Some(status)
    }
}

/// Returns when the devices and their holders are known: a coordinator that remembers them from before must not be told
/// that there are none. A kubelet that says nothing delays it by [`PATIENCE`] only.
async fn something_to_say(mut inventory: Latest<Inventory>, mut heard: watch::Receiver<bool>) {
    let known = async {
        // An error means that the agent is ending.
        let settled = inventory.wait_for(|inventory| inventory.settled).await.map(drop);
        let heard = heard.wait_for(|heard| *heard).await.map(drop);
        settled.and(heard)
    };
    let _late = tokio::time::timeout(PATIENCE, known).await;
}

/// Forgets tables of pods that are gone.
async fn prune(deliverer: Deliverer, mut pods: Latest<PodMap>, mut listed: watch::Receiver<bool>) {
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
