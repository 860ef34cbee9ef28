//! A real agent on every simulated node: with its own token, over TLS, with its own permissions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use muster_agent::directories::Directories;
use muster_agent::discover;
use muster_agent::host::Host;
use muster_agent::problem::Problems;
use muster_agent::run::{Agent, AgentSettings};
use muster_agent::{link, names};
use muster_program::log::LogLevel;
use muster_sandbox::kubelet::NodeSpec;
use serde_json::{Value, json};

use super::World;

const RBAC: &str = include_str!("../../../deploy/agent/rbac.yaml");
const POLICY: &str = include_str!("../../../deploy/agent/policy.yaml");

/// Namespace of the agents.
pub const NAMESPACE: &str = "muster-system";
/// Service account of the agents.
pub const ACCOUNT: &str = "muster-agent";

/// The agents of a world.
pub struct Agents {
    address: String,
    folder: PathBuf,
    directories: Directories,
    pause: Option<Duration>,
    agents: BTreeMap<String, Agent>,
}

// === impl World ===

impl World {
    /// Starts an agent on each of these nodes.
    pub(super) async fn start_agents(&mut self, nodes: Vec<NodeSpec>) -> anyhow::Result<()> {
        self.permit_agents().await.context("the agents' permissions")?;
        let address = self.coordinators()?.address();
        let mut agents = Agents::new(address, &self.folder().join("hub"));
        agents.pause = self.coordinators()?.settings.pause;
        for node in nodes.iter().filter(|node| node.files && node.hardware) {
            let settings = agents.settings(self, &node.name, &node.root).await?;
            agents.add(self, settings).await?;
        }
        self.agents = Some(agents);
        Ok(())
    }

    /// What an administrator would install before the agents.
    async fn permit_agents(&self) -> anyhow::Result<()> {
        for manifest in [RBAC, POLICY] {
            let documents: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
            for document in documents {
                self.create_if_missing(document).await?;
            }
        }
        Ok(())
    }

    /// Creates an object unless it is there.
    pub async fn create_if_missing(&self, object: Value) -> anyhow::Result<()> {
        match self.create_object(object).await {
            Err(error) if is_conflict(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// A token of the agents' account, bound to a node; for the coordinator, or for the API server.
    pub async fn agent_token(&self, node: &str, audience: Option<&str>) -> anyhow::Result<String> {
        let uid = self.node_uid(node).await?;
        let mut spec = json!({
            "boundObjectRef": { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
            "expirationSeconds": 3600,
            "audiences": [],
        });
        if let Some(audience) = audience {
            spec["audiences"] = json!([audience]);
        }
        self.token_of_agents(spec).await.with_context(|| format!("a token for the agent of {node}"))
    }

    /// A token of the agents' account for the API server, bound to nothing.
    pub async fn unbound_agent_token(&self) -> anyhow::Result<String> {
        self.token_of_agents(json!({ "expirationSeconds": 3600, "audiences": [] })).await
    }

    async fn token_of_agents(&self, spec: Value) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), NAMESPACE);
        let request: TokenRequest =
            serde_json::from_value(json!({ "metadata": {}, "spec": spec }))?;
        let made = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    async fn node_uid(&self, node: &str) -> anyhow::Result<String> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client());
        nodes.get(node).await?.metadata.uid.context("the node has no uid")
    }

    /// The agent of a node.
    pub fn agent(&self, node: &str) -> anyhow::Result<&Agent> {
        self.agents()?.agents.get(node).with_context(|| format!("no agent on {node}"))
    }

    /// The agents of the world.
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
    /// No agent yet; `folder` has the coordinators' CA, and gets tokens and the agents' state.
    pub fn new(address: String, folder: &Path) -> Self {
        let directories = Directories::new(&Problems::default());
        Self {
            address,
            folder: folder.to_owned(),
            directories,
            pause: None,
            agents: BTreeMap::new(),
        }
    }

    /// How to reach the hub, with a token of the node.
    pub async fn coordinator(
        &self,
        world: &World,
        node: &str,
    ) -> anyhow::Result<link::LinkSettings> {
        self.coordinator_with(node, &world.agent_token(node, Some(names::AUDIENCE)).await?)
    }

    /// The same with a token that is there.
    pub fn coordinator_with(&self, node: &str, token: &str) -> anyhow::Result<link::LinkSettings> {
        let file = self.folder.join(format!("{node}.token"));
        muster_sandbox::write_private(&file, token)?;
        let mut settings = link::LinkSettings::new(&self.address, self.folder.join("ca.crt"), file);
        settings.backoff_most = self.pause.unwrap_or(settings.backoff_most);
        Ok(settings)
    }

    /// AgentSettings of the agent of a node.
    pub async fn settings(
        &self,
        world: &World,
        node: &str,
        root: &Path,
    ) -> anyhow::Result<AgentSettings> {
        let discover = discover::DiscoverySettings::new(Host::at(root));
        let state = self.state_of(node);
        let coordinator = Some(self.coordinator(world, node).await?);
        let listen = Some("127.0.0.1:0".parse()?);
        Ok(AgentSettings { coordinator, listen, ..AgentSettings::new(node, discover, state) })
    }

    /// Starts an agent that has the permissions of agents only.
    pub async fn add(&mut self, world: &World, settings: AgentSettings) -> anyhow::Result<()> {
        let client = world.client_as(&world.agent_token(&settings.node, None).await?)?;
        self.add_with(client, settings).await
    }

    /// Starts an agent with this client.
    pub async fn add_with(
        &mut self,
        client: Client,
        settings: AgentSettings,
    ) -> anyhow::Result<()> {
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
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(refused)) if refused.code == 409)
}
