//! A hub, and a real agent on every simulated node: with its own token, over TLS, with its own permissions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use muster_agent::directories::Directories;
use muster_agent::discover;
use muster_agent::host::Host;
use muster_agent::problem::Problems;
use muster_agent::run::{Agent, Settings};
use muster_agent::{link, names};
use muster_coordinator::hub::authenticate::Reviewer;
use muster_coordinator::hub::{self, Hub, Role};
use muster_program::log::LogLevel;
use muster_sandbox::kubelet::NodeSpec;
use muster_sandbox::tls::Identity;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::World;

const RBAC: &str = include_str!("../../../deploy/agent/rbac.yaml");
const POLICY: &str = include_str!("../../../deploy/agent/policy.yaml");

/// Namespace of the agents.
pub const NAMESPACE: &str = "muster-system";
/// Service account of the agents.
pub const ACCOUNT: &str = "muster-agent";

/// The hub and the agents of a world.
pub struct Agents {
    hub: Hub,
    address: String,
    folder: PathBuf,
    directories: Directories,
    agents: BTreeMap<String, Agent>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

// === impl World ===

impl World {
    /// Starts the hub and an agent on each of these nodes.
    pub(super) async fn start_agents(&mut self, nodes: Vec<NodeSpec>) -> anyhow::Result<()> {
        self.permit_agents().await.context("the agents' permissions")?;
        let mut agents = Agents::start(self.client(), &self.folder().join("hub")).await?;
        for node in nodes.iter().filter(|node| node.files) {
            let settings = agents.settings(self, &node.name, &node.root).await?;
            agents.add(self, settings).await?;
        }
        self.agents = Some(agents);
        Ok(())
    }

    /// What an administrator would install before the agents.
    async fn permit_agents(&self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        ignore_conflict(namespaces.create(&PostParams::default(), &namespace).await)?;
        for manifest in [RBAC, POLICY] {
            let documents: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
            for document in documents {
                match self.create_object(document).await {
                    Err(error) if is_conflict(&error) => {}
                    other => drop(other?),
                }
            }
        }
        Ok(())
    }

    /// A token of the agents' account, bound to a node; for the coordinator, or for the API server.
    pub async fn agent_token(&self, node: &str, audience: Option<&str>) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), NAMESPACE);
        let uid = self.node_uid(node).await?;
        let mut spec = json!({
            "boundObjectRef": { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
            "expirationSeconds": 3600,
            "audiences": [],
        });
        if let Some(audience) = audience {
            spec["audiences"] = json!([audience]);
        }
        let request: TokenRequest =
            serde_json::from_value(json!({ "metadata": {}, "spec": spec }))?;
        let made = accounts
            .create_token_request(ACCOUNT, &PostParams::default(), &request)
            .await
            .with_context(|| format!("a token for the agent of {node}"))?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    async fn node_uid(&self, node: &str) -> anyhow::Result<String> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client());
        nodes.get(node).await?.metadata.uid.context("the node has no uid")
    }

    /// The hub.
    pub fn hub(&self) -> anyhow::Result<&Hub> {
        Ok(&self.agents()?.hub)
    }

    /// The agent of a node.
    pub fn agent(&self, node: &str) -> anyhow::Result<&Agent> {
        self.agents()?.agents.get(node).with_context(|| format!("no agent on {node}"))
    }

    /// The hub and the agents.
    pub fn agents(&self) -> anyhow::Result<&Agents> {
        self.agents.as_ref().context("this world was planned without agents")
    }

    /// The same, to add and end agents.
    pub fn agents_mut(&mut self) -> anyhow::Result<&mut Agents> {
        self.agents.as_mut().context("this world was planned without agents")
    }

    /// Ends the agent of a node and starts it anew, with the same directory for its state.
    pub async fn restart_agent(&mut self, node: &str) -> anyhow::Result<()> {
        let mut agents = self.agents.take().context("this world was planned without agents")?;
        let outcome = async {
            agents.end(node).await?;
            let root = self
                .kubelets()
                .and_then(|nodes| nodes.node(node))
                .context("no such node")?
                .spec()
                .root
                .clone();
            let settings = agents.settings(self, node, &root).await?;
            agents.add(self, settings).await
        }
        .await;
        self.agents = Some(agents);
        outcome
    }
}

// === impl Agents ===

impl Agents {
    /// A hub on loopback; `folder` is for certificates, tokens and the agents' state.
    pub async fn start(client: Client, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let identity = Identity::make(&["localhost"])?;
        std::fs::write(folder.join("ca.crt"), &identity.authority)?;
        let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
        let reviewer = Arc::new(Reviewer::new(client, vec![account]));
        let hub = Hub::new(hub::Settings::default(), Role::Leader { epoch: 1 }, reviewer);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("https://localhost:{}", listener.local_addr()?.port());
        let tls = identity.config.clone();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (serving, stopped) = (hub.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = serving.serve(listener, Some(tls), stopped).await {
                tracing::error!("the hub ended: {error}");
            }
        });
        let directories = Directories::new(&Problems::default());
        let folder = folder.to_owned();
        Ok(Self { hub, address, folder, directories, agents: BTreeMap::new(), stop, tasks })
    }

    /// How to reach the hub, with a token of the node.
    pub async fn coordinator(&self, world: &World, node: &str) -> anyhow::Result<link::Settings> {
        self.coordinator_with(node, &world.agent_token(node, Some(names::AUDIENCE)).await?)
    }

    /// The same with a token that is there.
    pub fn coordinator_with(&self, node: &str, token: &str) -> anyhow::Result<link::Settings> {
        let file = self.folder.join(format!("{node}.token"));
        muster_sandbox::write_private(&file, token)?;
        Ok(link::Settings::new(&self.address, self.folder.join("ca.crt"), file))
    }

    /// Settings of the agent of a node.
    pub async fn settings(
        &self,
        world: &World,
        node: &str,
        root: &Path,
    ) -> anyhow::Result<Settings> {
        let discover = discover::Settings::new(Host::at(root));
        let state = self.state_of(node);
        let coordinator = Some(self.coordinator(world, node).await?);
        let listen = Some("127.0.0.1:0".parse()?);
        Ok(Settings { coordinator, listen, ..Settings::new(node, discover, state) })
    }

    /// Starts an agent that has the permissions of agents only.
    pub async fn add(&mut self, world: &World, settings: Settings) -> anyhow::Result<()> {
        let client = world.client_as(&world.agent_token(&settings.node, None).await?)?;
        self.add_with(client, settings).await
    }

    /// Starts an agent with this client.
    pub async fn add_with(&mut self, client: Client, settings: Settings) -> anyhow::Result<()> {
        let node = settings.node.clone();
        let (directories, log) = (self.directories.clone(), LogLevel::fixed());
        let agent = Agent::start(settings, client, directories, log, Problems::default()).await;
        self.agents.insert(node.clone(), agent.with_context(|| format!("the agent of {node}"))?);
        Ok(())
    }

    /// Ends one agent.
    pub async fn end(&mut self, node: &str) -> anyhow::Result<()> {
        let agent = self.agents.remove(node).with_context(|| format!("no agent on {node}"))?;
        agent.stop().await;
        Ok(())
    }

    /// Where agents keep what must survive a restart.
    pub fn state_of(&self, node: &str) -> PathBuf {
        self.folder.join(format!("{node}.state"))
    }

    /// All agents, by node.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Agent)> {
        self.agents.iter()
    }

    /// Ends all of it.
    pub async fn stop(self) {
        futures::future::join_all(self.agents.into_values().map(Agent::stop)).await;
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(refused)) if refused.code == 409)
}

fn ignore_conflict<T>(made: kube::Result<T>) -> kube::Result<()> {
    match made {
        Err(kube::Error::Api(refused)) if refused.code == 409 => Ok(()),
        other => other.map(drop),
    }
}
