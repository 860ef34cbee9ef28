//! Simulated nodes: a kubelet for each, as an ordinary client of the API.
//!
//! ```text
//!   one watch of bound pods ──▶ engine ──▶ lifecycle (pure) ──▶ status patches, deletes
//!                                 │  ▲
//!          devices, checkpoint ◀──┤  └── exits of closures and processes, volumes ready, time
//!          pod-resources socket ◀─┘
//! ```
//!
//! All nodes of a [`Kubelets`] share one watch, one task that decides and one that renews leases, so that
//! a thousand nodes are cheap. Start reading at [`lifecycle`] for what happens to a pod, at `engine` for
//! how it is driven. [`names`] lists the annotations by which a pod says how it wants to run.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::hardware::Profile;

pub mod checkpoint;
pub mod containers;
pub mod devices;
mod engine;
pub mod environment;
mod images;
pub mod lifecycle;
pub mod logs;
pub mod names;
pub mod node;
pub mod podresources;
mod post;
mod prepare;
#[cfg(test)]
mod tests;
pub mod volumes;
mod watch;

pub use containers::{ContainerContext, Containers};
pub use images::MissingImages;
pub use logs::Logs;

use devices::Held;
use engine::{Engine, Event};
use podresources::View;

/// A node to simulate.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Name of the Node object.
    pub name: String,
    /// What it is made of.
    pub profile: Profile,
    /// Its number in the cluster: addresses and identifiers follow from it.
    pub index: u32,
    /// The directory that stands for its `/`.
    pub root: PathBuf,
    /// Whether it serves pod-resources on its socket.
    pub pod_resources: bool,
    /// Whether it has files: hardware, volumes, checkpoint. Without them nothing is written below `root`
    /// but the socket, and ConfigMaps and Secrets of volumes are not looked at.
    pub files: bool,
    /// Whether the files of its hardware are among them.
    pub hardware: bool,
    /// Labels beside those of the profile.
    pub labels: BTreeMap<String, String>,
    /// Its taints, as in `spec.taints`.
    pub taints: Vec<Value>,
}

/// What holds for all nodes.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// Containers that are closures.
    pub containers: Containers,
    /// Whether pods may ask for their containers to be processes on this host.
    pub allow_exec: bool,
    /// How often volumes follow changes of what they show, up to half as long again as the kubelet does it; a change of
    /// the pod itself makes it look at once. Zero: always at once.
    pub sync: Duration,
    /// How often leases are renewed.
    pub lease: Duration,
    /// How often the Node's status is written though nothing changed.
    pub heartbeat: Duration,
    /// Images that do not exist: containers that name them do not start.
    pub missing_images: MissingImages,
    /// Environment that closures and processes get beside the pod's own.
    pub env: BTreeMap<String, String>,
}

/// The kubelets that run in this process.
#[derive(Debug)]
pub struct Kubelets {
    logs: Logs,
    nodes: BTreeMap<String, NodeHandle>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A handle on one node.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    spec: Arc<NodeSpec>,
    view: Arc<Mutex<View>>,
    events: mpsc::UnboundedSender<Event>,
}

/// Why nodes could not be started.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// The node's files could not be written.
    #[error("node {node}: {error}")]
    Files {
        /// Name of the node.
        node: String,
        /// What went wrong.
        error: io::Error,
    },
    /// The API refused the node.
    #[error("node {node}: {error}")]
    Register {
        /// Name of the node.
        node: String,
        /// What it said.
        error: Box<kube::Error>,
    },
    /// The kubelets are stopped.
    #[error("the kubelets are stopped")]
    Stopped,
}

// === impl NodeSpec ===

impl NodeSpec {
    /// A node with all its files and its socket.
    pub fn new(name: &str, profile: Profile, index: u32, root: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            profile,
            index,
            root: root.into(),
            pod_resources: true,
            files: true,
            hardware: true,
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// A node with volumes, checkpoint and socket, and without the hundreds of files of its hardware: for tests with very
    /// many that are delivered to.
    pub fn lean(name: &str, profile: Profile, index: u32, root: impl Into<PathBuf>) -> Self {
        Self { hardware: false, ..Self::new(name, profile, index, root) }
    }

    /// A node that writes no files: for tests with very many.
    pub fn bare(name: &str, profile: Profile, index: u32) -> Self {
        Self { pod_resources: false, files: false, ..Self::new(name, profile, index, "") }
    }
}

// === impl KubeletOptions ===

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            containers: Containers::default(),
            allow_exec: false,
            sync: Duration::from_secs(60),
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(300),
            missing_images: MissingImages::default(),
            env: BTreeMap::new(),
        }
    }
}

// === impl Kubelets ===

impl Kubelets {
    /// Lays out, registers and starts the nodes. Returns when all are registered and ready.
    pub async fn start(
        client: Client,
        clock: Clock,
        nodes: Vec<NodeSpec>,
        options: KubeletOptions,
    ) -> Result<Self, KubeletError> {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let logs = Logs::default();
        let (events, inbox) = mpsc::unbounded_channel();
        let single = match nodes.as_slice() {
            [one] => Some(one.name.clone()),
            _ => None,
        };
        let sync = options.sync;
        let (lease, heartbeat) = (options.lease, options.heartbeat);
        let mut engine = Engine::new(
            client.clone(),
            clock.clone(),
            options,
            logs.clone(),
            events.clone(),
            &stop,
            &tasks,
        );
        let mut handles = BTreeMap::new();
        for spec in nodes {
            let spec = Arc::new(spec);
            let view = engine.add_node(spec.clone()).await?;
            let handle = NodeHandle { spec: spec.clone(), view, events: events.clone() };
            handles.insert(spec.name.clone(), handle);
        }
        engine.register_all().await?;
        let states = engine.states();
        tasks.spawn(engine.run(inbox));
        tasks.spawn(watch::pods(client.clone(), single, events.clone(), stop.clone()));
        if sync.is_zero() {
            tasks.spawn(watch::objects(client.clone(), events, stop.clone()));
        }
        tasks.spawn(watch::leases(client, clock, states, lease, heartbeat, stop.clone()));
        tasks.close();
        Ok(Self { logs, nodes: handles, stop, tasks })
    }

    /// The logs of all containers.
    pub fn logs(&self) -> Logs {
        self.logs.clone()
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<NodeHandle> {
        self.nodes.get(name).cloned()
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeHandle> {
        self.nodes.values()
    }

    /// Stops all kubelets and ends the containers that do real work. The API's objects stay.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl NodeHandle ===

impl NodeHandle {
    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What it was started with.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Which containers hold which devices now, by pod uid.
    pub fn held(&self) -> Vec<Held> {
        self.view.lock().devices.held().to_vec()
    }

    /// Marks a device healthy or not, as its plugin does; false when the node has none of this id.
    /// Returns when the Node's status is written.
    pub async fn set_device_health(&self, id: &str, healthy: bool) -> Result<bool, KubeletError> {
        let (done, wait) = oneshot::channel();
        let (node, device) = (self.spec.name.clone(), id.to_owned());
        self.ask(Event::Health { node, device, healthy, done }, wait).await
    }

    /// Stops the node's kubelet as a crash does: its state is lost, its socket closed, its lease no
    /// longer renewed. Containers go on.
    pub async fn stop(&self) -> Result<(), KubeletError> {
        let (done, wait) = oneshot::channel();
        self.ask(Event::Stop { node: self.spec.name.clone(), done }, wait).await
    }

    /// Starts the kubelet again: allocations come from its checkpoint, pods from the API.
    pub async fn restart(&self) -> Result<(), KubeletError> {
        let (done, wait) = oneshot::channel();
        self.ask(Event::Restart { node: self.spec.name.clone(), done }, wait).await?
    }

    async fn ask<T>(&self, event: Event, wait: oneshot::Receiver<T>) -> Result<T, KubeletError> {
        self.events.send(event).map_err(|_| KubeletError::Stopped)?;
        wait.await.map_err(|_| KubeletError::Stopped)
    }
}
