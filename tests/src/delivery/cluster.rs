//! Many nodes with a real agent each, one rank group with one pod per node, and a spare node for the pod that is replaced.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use muster_agent::directories::Directories;
use muster_agent::discover;
use muster_agent::host::Host;
use muster_agent::names;
use muster_agent::problem::Problems;
use muster_agent::run::{Agent, AgentSettings};
use muster_hub::{Hub, What};
use muster_program::log::LogLevel;
use muster_ranktable::inject::Injection;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::{ContainerContext, Containers};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;

use super::scrape::Figures;
use crate::world::coordinators::Choices;
use crate::world::{HOLD, Plan, Seen, World, table_file, until};

/// How often it is looked whether all have their table.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The seed's template for MindIE.
const TEMPLATE: &str = "ascend-ranktable-template-mindie-role";
const GROUP: &str = "bench";
const FILE: &str = "ranktable.json";
/// An image that waits for nothing but its end: a thousand waiters would be a thousand threads of this process.
const WAITER: &str = "waiter:bench";
/// Requests at once.
const AT_ONCE: usize = 16;
/// How long anything may take; it ends as soon as it is so.
const PATIENCE: Duration = Duration::from_secs(240);

/// A world to come: lean nodes, one more than asked for, and one coordinator.
pub fn plan(nodes: u32) -> Plan {
    let waiter = |context: ContainerContext| async move {
        context.stop.cancelled().await;
        143
    };
    let choices = Choices::default();
    let injection = Injection { agent_image: WAITER.to_owned(), ..choices.injection.clone() };
    World::new()
        .lean_nodes_of(Profile::Ascend910b8, nodes + 1)
        .containers(Containers::default().image(WAITER, waiter))
        .agents()
        // As it is shipped: with all agents on the same cores, a short lease would end for want of a turn.
        .choices(Choices { injection, lease: Duration::from_secs(15), ..choices })
}

/// Nodes, agents, and the group's pods.
pub struct Cluster<'a> {
    world: &'a World,
    hub: Hub,
    /// The last one is the spare.
    nodes: Vec<String>,
    devices: u32,
    agents: BTreeMap<String, Agent>,
    /// Node by pod.
    pods: BTreeMap<String, String>,
}

/// A generation that everybody has.
#[derive(Debug)]
pub struct Arrived {
    /// When the last report that it needed came to the hub.
    pub complete: SystemTime,
    /// The coordinator's figures, of this generation alone.
    pub coordinator: Figures,
    /// The agents' figures together, of this generation alone.
    pub agents: Figures,
    /// From complete to each file's last change: its rename.
    pub files: Vec<Duration>,
    /// The table as the file has it.
    pub table: Vec<u8>,
}

// === impl Cluster ===

impl<'a> Cluster<'a> {
    /// Lays out what agents find and starts them on a runtime of their own. All have reported when this returns.
    pub async fn start(world: &'a World, agents: &Handle, devices: u32) -> anyhow::Result<Self> {
        let specs: Vec<_> = world
            .kubelets()
            .context("no nodes")?
            .nodes()
            .map(|node| (node.spec().index, node.spec().name.clone(), node.spec().root.clone()))
            .collect();
        for (index, _, root) in &specs {
            lay_out(root, *index, devices)?;
        }
        let tokens: Vec<(String, PathBuf, String)> = futures::stream::iter(specs)
            .map(|(_, node, root)| async move {
                let token = world.agent_token(&node, Some(names::AUDIENCE)).await?;
                anyhow::Ok((node, root, token))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let leader = world.coordinators()?.leader().context("nobody leads")?.coordinator();
        let (hub, address) = (leader.hub().clone(), format!("https://{}", leader.addresses().hub));
        let directories = Directories::new(&Problems::default());
        let mut started = BTreeMap::new();
        for (node, root, token) in &tokens {
            let discover = discover::DiscoverySettings {
                tools: None,
                ..discover::DiscoverySettings::new(Host::at(root))
            };
            let mut link = world.agents()?.coordinator_with(node, token)?;
            link.address.clone_from(&address);
            let state = world.agents()?.state_of(node);
            let settings = AgentSettings {
                coordinator: Some(link),
                ..AgentSettings::new(node, discover, state)
            };
            let start = Agent::start(
                settings,
                world.client(),
                directories.clone(),
                LogLevel::fixed(),
                Problems::default(),
            );
            started.insert(node.clone(), agents.spawn(start).await??);
        }
        let nodes: Vec<String> = tokens.into_iter().map(|(node, ..)| node).collect();
        let cluster = Self { world, hub, nodes, devices, agents: started, pods: BTreeMap::new() };
        let all = cluster.nodes.len();
        until("all agents at the hub", PATIENCE, async || {
            let whole = cluster.hub.inventories();
            let whole = whole.values().filter(|one| {
                one.settled && one.server_id.is_some() && one.devices.len() == devices as usize
            });
            Ok(seen(whole.count(), all))
        })
        .await?;
        Ok(cluster)
    }

    /// The hub that the agents are connected to.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The first node.
    pub fn first(&self) -> &str {
        self.nodes.first().map_or("", String::as_str)
    }

    /// How many pods the group has.
    pub fn size(&self) -> usize {
        self.nodes.len() - 1
    }

    async fn create(&mut self, name: &str, node: &str) -> anyhow::Result<()> {
        self.world.create_object(self.pod(name, node)).await?;
        self.pods.insert(name.to_owned(), node.to_owned());
        Ok(())
    }

    fn pod(&self, name: &str, node: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name,
                "labels": { names::RANK_GROUP: GROUP },
                "annotations": {
                    "muster.dev/rank-group-size": self.size().to_string(),
                    "muster.dev/ranktable-template": TEMPLATE,
                } },
            "spec": { "nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": HOLD,
                    "resources": { "limits": { "huawei.com/Ascend910": self.devices.to_string() } } }] },
        })
    }

    /// All pods but the last one of the group; what they hold is known everywhere when this returns.
    pub async fn fill(&mut self) -> anyhow::Result<()> {
        let most = self.size() - 1;
        let pods: Vec<(String, String)> = self
            .nodes
            .iter()
            .take(most)
            .enumerate()
            .map(|(n, node)| (format!("p{n}"), node.clone()))
            .collect();
        let this = &*self;
        futures::stream::iter(&pods)
            .map(|(name, node)| this.world.create_object(this.pod(name, node)))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        self.pods.extend(pods);
        until("the devices of all pods but one", PATIENCE, async || {
            let held = self.hub.pods().values().filter(|pods| !pods.is_empty()).count();
            Ok(seen(held, most))
        })
        .await?;
        let pods: Api<Pod> = self.world.api();
        until("the annotations and volumes of all pods but one", PATIENCE, async || {
            let all = pods.list(&Default::default()).await?.items;
            let annotated = |pod: &&Pod| {
                let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
                pod.annotations().contains_key(muster_proto::annotation::KEY) && ip.is_some()
            };
            Ok(seen(all.iter().filter(annotated).count(), most))
        })
        .await
    }

    /// The last pod of the group comes; everybody has the table when this returns.
    pub async fn complete(&mut self) -> anyhow::Result<Arrived> {
        let at = self.size() - 1;
        let node = self.nodes[at].clone();
        self.arrive(&format!("p{at}"), &node).await
    }

    /// A pod goes, and another comes on the spare node; everybody has the new table when this returns.
    pub async fn replace(&mut self) -> anyhow::Result<Arrived> {
        let at = self.size() - 1;
        let name = format!("p{at}");
        let pods: Api<Pod> = self.world.api();
        pods.delete(&name, &DeleteParams::default()).await?;
        until("the end of a pod", PATIENCE, async || {
            Ok(seen(usize::from(pods.get_opt(&name).await?.is_none()), 1))
        })
        .await?;
        self.pods.remove(&name);
        let spare = self.nodes[at + 1].clone();
        self.arrive("spare", &spare).await
    }

    async fn arrive(&mut self, name: &str, node: &str) -> anyhow::Result<Arrived> {
        let mut changes = self.hub.subscribe();
        let (before, agents) = (self.coordinator()?, self.agents());
        let watched = node.to_owned();
        let heard = std::thread::spawn(move || {
            loop {
                match changes.blocking_recv() {
                    Ok(changed) if changed.node == watched && changed.what == What::Pods => {
                        return Some(SystemTime::now() - changed.at.elapsed());
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        self.create(name, node).await?;
        let done = "muster_ranktable_delivery_duration_seconds_count";
        until("the table with all pods", PATIENCE, async || {
            // A look at all metrics is work for the cores that are measured.
            tokio::time::sleep(LOOK_AGAIN).await;
            let more = self.coordinator()?.get(done) - before.get(done);
            Ok(if more >= 1.0 { Seen::Yes(()) } else { Seen::NotYet(String::new()) })
        })
        .await
        .with_context(|| self.standing())?;
        let complete = tokio::task::spawn_blocking(move || heard.join()).await?;
        let complete = complete.ok().flatten().context("the hub has ended")?;
        let mut files = Vec::new();
        for path in self.files().await? {
            files.push(changed(&path)?.duration_since(complete).unwrap_or_default());
        }
        files.sort();
        Ok(Arrived {
            complete,
            coordinator: self.coordinator()?.since(&before),
            agents: self.agents().since(&agents),
            files,
            table: self.same_everywhere().await?,
        })
    }

    fn standing(&self) -> String {
        let leader = self.world.coordinators().ok().and_then(|all| all.leader());
        let groups = leader.map(|leader| leader.coordinator().status().snapshot().groups);
        format!("{groups:?}").chars().take(2000).collect()
    }

    /// The group's files, by pod.
    pub async fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let pods: Api<Pod> = self.world.api();
        let all = pods.list(&Default::default()).await?.items;
        let path = |pod: &Pod| {
            let node = self.pods.get(&pod.name_any()).context("an unknown pod")?;
            let handle = self.world.kubelets().and_then(|nodes| nodes.node(node));
            let root = handle.context("no such node")?.spec().root.clone();
            Ok(table_file(&root, &pod.uid().context("no uid")?, FILE))
        };
        all.iter().filter(|pod| self.pods.contains_key(&pod.name_any())).map(path).collect()
    }

    /// The table, which all files must be.
    async fn same_everywhere(&self) -> anyhow::Result<Vec<u8>> {
        let files = self.files().await?;
        ensure!(files.len() == self.size(), "{} files of {} pods", files.len(), self.size());
        let first = std::fs::read(files.first().context("no file")?)?;
        for path in &files {
            ensure!(std::fs::read(path)? == first, "{} is another table", path.display());
        }
        Ok(first)
    }

    fn coordinator(&self) -> anyhow::Result<Figures> {
        let leader = self.world.coordinators()?.leader().context("nobody leads")?;
        Ok(Figures::of(&leader.coordinator().status().registry))
    }

    /// The agents' figures together.
    pub fn agents(&self) -> Figures {
        Figures::sum(self.agents.values().map(|agent| Figures::of(&agent.status().registry)))
    }

    /// Ends the agents.
    pub async fn stop(self) {
        futures::future::join_all(self.agents.into_values().map(Agent::stop)).await;
    }
}

fn seen(there: usize, all: usize) -> Seen<()> {
    if there >= all { Seen::Yes(()) } else { Seen::NotYet(format!("{there} of {all}")) }
}

/// When a file was renamed: that is the last change of its inode, after its last write.
fn changed(path: &Path) -> anyhow::Result<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let since = Duration::new(found.ctime().try_into()?, found.ctime_nsec().try_into()?);
    Ok(SystemTime::UNIX_EPOCH + since)
}

/// Device files and their configuration and nothing else: a thousand whole nodes would be half a million files.
fn lay_out(root: &Path, index: u32, devices: u32) -> anyhow::Result<()> {
    for folder in ["dev", "etc", "usr/local/Ascend/driver"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let mut conf = String::new();
    for id in 0..devices {
        std::fs::write(root.join(format!("dev/davinci{id}")), "")?;
        writeln!(conf, "address_{id}=10.{}.{}.{}", index / 250, index % 250, id + 1)?;
    }
    std::fs::write(root.join("dev/davinci_manager"), "")?;
    std::fs::write(root.join("etc/hccn.conf"), conf)?;
    std::fs::write(root.join("usr/local/Ascend/driver/version.info"), "Version=25.2.0\n")?;
    Ok(())
}
