//! A cluster to try things on: `World::new().nodes(8).start()`.
//!
//! By default it is a sandbox in this process. With `MUSTER_KUBECONFIG` it is a namespace and some simulated nodes
//! of a real cluster, with names of their own, taken away at the end; everything else is the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams};
use muster_sandbox::Sandbox;
use muster_sandbox::control::{self, Which};
use muster_sandbox::kubelet::{Kubelets, NodeSpec};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub mod agents;
mod cluster;
pub mod coordinators;
mod devices;
pub mod dijob;
mod gate;
mod guillotine;
pub mod jobset;
mod manifest;
pub mod people;
mod plan;
pub mod scheduling;
pub(crate) mod service;
pub mod serving;
pub mod training;
mod wait;
pub(crate) mod waiter;
mod wire;

use agents::Agents;
use cluster::Cluster;
use coordinators::Coordinators;
use manifest::Kinds;

pub use devices::HeldDevices;
pub use gate::{Gate, HOLD};
pub use guillotine::{Guillotine, Side};
pub use jobset::Ended;
pub use plan::Plan;
pub use wait::{PATIENCE, Seen, until, until_told};
pub use waiter::table_file;
pub use wire::{Held, Wire};

/// The environment variable that names the kubeconfig of a real cluster.
pub const KUBECONFIG: &str = "MUSTER_KUBECONFIG";

/// A running cluster with nodes.
pub struct World {
    place: Place,
    client: Client,
    namespace: String,
    gate: Gate,
    kinds: Kinds,
    coordinators: Option<Coordinators>,
    agents: Option<Agents>,
    folder: tempfile::TempDir,
    /// What callers of the DI server show, once one has called.
    di_token: tokio::sync::OnceCell<String>,
    /// Given back when it has ended.
    _room: Option<OwnedSemaphorePermit>,
}

/// How many worlds run at once in this process, however many threads the tests have: each is a whole cluster with leases to
/// renew, and more of them than cores only make each other late.
static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    Arc::new(Semaphore::new(cores.max(2)))
});

enum Place {
    Sandbox(Box<Sandbox>),
    Cluster(Box<Cluster>),
}

// === impl World ===

impl World {
    /// A world to come, without nodes.
    #[allow(clippy::new_ret_no_self, reason = "a world is planned before it is")]
    pub fn new() -> Plan {
        Plan::default()
    }

    /// Whether a real cluster is meant.
    pub fn is_real() -> bool {
        std::env::var_os(KUBECONFIG).is_some_and(|path| !path.is_empty())
    }

    /// Logs to stderr what `MUSTER_TEST_LOG` asks for, `muster=debug` say.
    fn log() {
        if let Ok(filter) = std::env::var("MUSTER_TEST_LOG") {
            let filter = tracing_subscriber::EnvFilter::new(filter);
            // Another world of the same process may have done it.
            let _done = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .try_init();
        }
    }

    async fn begin(plan: Plan) -> anyhow::Result<Self> {
        Self::log();
        let room = match Self::is_real() {
            true => None,
            false => Some(ROOM.clone().acquire_owned().await?),
        };
        let folder = tempfile::Builder::new().prefix("muster-").tempdir()?;
        let (gate, with_agents) = (plan.gate.clone(), plan.agents);
        let (coordinators, choices) = (plan.coordinators, plan.choices.clone());
        let (place, client, namespace) = match std::env::var_os(KUBECONFIG) {
            Some(path) if !path.is_empty() => {
                let cluster = Cluster::start(PathBuf::from(path), plan, folder.path()).await?;
                let (client, namespace) = (cluster.client(), cluster.namespace().to_owned());
                (Place::Cluster(Box::new(cluster)), client, namespace)
            }
            _ => {
                let nodes = plan.specs(folder.path(), None);
                let mut builder = Sandbox::builder();
                if plan.alone {
                    let jobsets = control::crds(&Which { jobset: true, ..Which::none() });
                    builder = jobsets
                        .into_iter()
                        .fold(builder.controllers(None), |all, crd| all.crd(crd));
                }
                let sandbox = builder
                    .strict(plan.strict)
                    .seed(plan.seed)
                    .port(plan.port)
                    .kubelet(plan.kubelet_options())
                    .nodes(nodes)
                    .start()
                    .await
                    .context("the sandbox does not start")?;
                let client = sandbox.client();
                if plan.alone {
                    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                        "metadata": {"name": "default", "namespace": "default"}});
                    sandbox.create("/api/v1/namespaces/default/serviceaccounts", &account).await?;
                }
                (Place::Sandbox(Box::new(sandbox)), client, "default".to_owned())
            }
        };
        let kinds = Kinds::default();
        let mut world = Self {
            place,
            client,
            namespace,
            gate,
            kinds,
            coordinators: None,
            agents: None,
            folder,
            di_token: tokio::sync::OnceCell::new(),
            _room: room,
        };
        let started = async {
            world.ready().await?;
            if coordinators > 0 {
                world
                    .start_coordinators(coordinators, choices)
                    .await
                    .context("the coordinators")?;
            }
            if with_agents {
                world.start_agents(world.specs()).await?;
            }
            anyhow::Ok(())
        };
        let started = started.await;
        match started {
            Ok(()) => Ok(world),
            Err(error) => {
                world.stop().await;
                Err(error)
            }
        }
    }

    fn specs(&self) -> Vec<NodeSpec> {
        let specs = |nodes: &Kubelets| nodes.nodes().map(|node| node.spec().clone()).collect();
        self.kubelets().map(specs).unwrap_or_default()
    }

    /// Pods can be created as soon as their service account is there.
    async fn ready(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = self.api();
        self.until("the default service account", async || {
            Ok(match accounts.get_opt("default").await? {
                Some(_) => Seen::Yes(()),
                None => Seen::NotYet("no service account".to_owned()),
            })
        })
        .await
    }

    /// A client as the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with a token of one's own.
    pub fn client_as(&self, token: &str) -> anyhow::Result<Client> {
        match &self.place {
            Place::Sandbox(sandbox) => sandbox.http_client_as(token),
            Place::Cluster(cluster) => cluster.client_as(token),
        }
    }

    /// The namespace to work in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Objects of a kind in the world's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Where the server listens.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Sandbox(sandbox) => sandbox.url(),
            Place::Cluster(cluster) => cluster.url().to_owned(),
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.place {
            Place::Sandbox(sandbox) => sandbox.kubeconfig_path(),
            Place::Cluster(cluster) => cluster.kubeconfig().to_owned(),
        }
    }

    /// Below this folder each node has the directory that stands for its `/`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The sandbox, unless the cluster is a real one.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match &self.place {
            Place::Sandbox(sandbox) => Some(sandbox),
            Place::Cluster(_) => None,
        }
    }

    /// The same, to restart it.
    pub fn sandbox_mut(&mut self) -> Option<&mut Sandbox> {
        match &mut self.place {
            Place::Sandbox(sandbox) => Some(sandbox),
            Place::Cluster(_) => None,
        }
    }

    /// The simulated nodes, if there are any.
    pub fn kubelets(&self) -> Option<&Kubelets> {
        match &self.place {
            Place::Sandbox(sandbox) => sandbox.kubelets(),
            Place::Cluster(cluster) => cluster.kubelets(),
        }
    }

    /// Holds back the containers of the image [`HOLD`].
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The pods of the namespace that the label selector picks, by name.
    pub async fn pods(&self, selector: &str) -> anyhow::Result<Vec<Pod>> {
        let params = ListParams::default().labels(selector);
        let mut pods = self.api::<Pod>().list(&params).await?.items;
        pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(pods)
    }

    /// Waits until so many pods that the selector picks are in this phase, and no others are there.
    pub async fn pods_in(
        &self,
        selector: &str,
        count: usize,
        phase: &str,
    ) -> anyhow::Result<Vec<Pod>> {
        self.until(&format!("{count} pods {selector} {phase}"), async || {
            let pods = self.pods(selector).await?;
            let there = pods.iter().filter(|pod| jobset::phase(pod) == phase).count();
            if there == count && pods.len() == count {
                return Ok(Seen::Yes(pods));
            }
            Ok(Seen::NotYet(jobset::summary(&pods)))
        })
        .await
    }

    /// Looks until `look` has seen it, for at most [`PATIENCE`].
    pub async fn until<T>(
        &self,
        what: &str,
        look: impl AsyncFnMut() -> anyhow::Result<Seen<T>>,
    ) -> anyhow::Result<T> {
        until(what, PATIENCE, look).await
    }

    /// Ends it; what a lasting cluster would keep is taken away.
    pub async fn stop(self) {
        self.gate.open();
        if self.coordinators.is_some() && Self::is_real() {
            self.remove_webhook().await;
            self.remove_further_rights().await;
        }
        if let Some(agents) = self.agents {
            agents.stop().await;
        }
        if let Some(coordinators) = self.coordinators {
            coordinators.stop().await;
        }
        match self.place {
            Place::Sandbox(sandbox) => sandbox.stop().await,
            Place::Cluster(cluster) => cluster.stop().await,
        }
    }
}

// === impl Plan ===

impl Plan {
    /// Starts it. Ready when this returns: pods can be created, nodes are registered.
    pub async fn start(self) -> anyhow::Result<World> {
        World::begin(self).await
    }

    /// Starts it, does `body`, and ends it whatever comes of it.
    pub async fn run(
        self,
        body: impl AsyncFnOnce(&mut World) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut world = self.start().await?;
        let outcome = std::panic::AssertUnwindSafe(body(&mut world)).catch_unwind().await;
        let stopped = tokio::time::timeout(Duration::from_secs(120), world.stop()).await;
        match outcome {
            Ok(Ok(())) => stopped.context("the world does not end"),
            Ok(Err(error)) => Err(error),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
