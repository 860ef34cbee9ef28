//! A group's life, step by step, while coordinators die.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::DeleteParams;
use muster_proto::delivery::{Digest, Place};
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::{Guillotine, PATIENCE, Plan, Seen, table_file};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::witness::Witness;
use crate::suite::ranktable::{condition, generation, records, table, worker};

/// Devices of each pod.
pub const DEVICES: u32 = 2;

/// Each look in a wait, and so the longest that somebody who was chosen lives on.
const PAUSE: Duration = Duration::from_millis(5);

/// How a pod reads its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Its agent writes it.
    Agent,
    /// By a ConfigMap volume.
    Volume,
}

/// Coordinators that go through the guillotine, and agents.
pub struct Stage {
    pub world: World,
    pub guillotine: Arc<Guillotine>,
    /// The number in the world of each that went through the guillotine.
    numbers: BTreeMap<usize, usize>,
    pub nodes: Vec<String>,
    pub kills: usize,
}

pub struct Play<'a> {
    pub stage: &'a mut Stage,
    pub group: String,
    pub witness: Witness,
    /// Name, node and uid of the pods that are there.
    pods: Vec<(String, String, String)>,
}

/// Two nodes, two coordinators.
pub fn plan() -> Plan {
    let pause = Some(Duration::from_millis(200));
    let choices = Choices { pause, ..Choices::default() };
    World::new().nodes(2).choices(choices).agents()
}

impl Stage {
    /// Does `body` on one with a leader and a standby, and ends it whatever comes of it: what it left in a real cluster
    /// would be in the way of others.
    pub async fn run(body: impl AsyncFnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let world = plan().start().await?;
        let guillotine = Guillotine::new(world.namespace());
        let nodes = world.kubelets().map(|all| all.nodes().map(|node| node.name().to_owned()));
        let nodes = nodes.into_iter().flatten().collect();
        let mut stage = Self { world, guillotine, numbers: BTreeMap::new(), nodes, kills: 0 };
        let played = async {
            stage.enter().await?;
            body(&mut stage).await
        };
        let outcome = AssertUnwindSafe(played).catch_unwind().await;
        stage.world.stop().await;
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    async fn enter(&mut self) -> Result<()> {
        self.add().await?;
        self.add().await?;
        self.world.coordinators_mut()?.end(0).await?;
        self.leader().await?;
        Ok(())
    }

    /// One more coordinator.
    pub async fn add(&mut self) -> Result<()> {
        let mut neck = 0;
        let guillotine = self.guillotine.clone();
        let number = self.world.add_coordinator_with(|client| {
            let (own, client) = guillotine.client(client);
            neck = own;
            client
        });
        let number = number.await?;
        self.numbers.insert(neck, number);
        Ok(())
    }

    /// Kills a coordinator, and starts another.
    pub async fn kill(&mut self, number: usize) -> Result<()> {
        self.world.kill_for_good(number).await?;
        self.kills += 1;
        self.add().await
    }

    /// Kills whom the guillotine has chosen.
    async fn tend(&mut self) -> Result<()> {
        if let Some(neck) = self.guillotine.fallen() {
            let number = self.numbers.get(&neck).copied().context("nobody has this neck")?;
            self.kill(number).await?;
        }
        Ok(())
    }

    /// Looks until it is so; whoever is chosen meanwhile is killed.
    pub async fn until<T>(
        &mut self,
        what: &str,
        mut look: impl AsyncFnMut(&World) -> Result<Seen<T>>,
    ) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.tend().await?;
            let seen = match look(&self.world).await {
                Ok(Seen::Yes(found)) => return Ok(found),
                Ok(Seen::NotYet(seen)) => seen,
                Err(error) => format!("{error:#}"),
            };
            ensure!(Instant::now() < end, "waited for {what}; last seen: {seen}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for a leader; its number.
    pub async fn leader(&mut self) -> Result<usize> {
        self.until("a leader", async |world| {
            let leader = world.coordinators()?.leader().map(|leader| leader.number);
            Ok(leader.map_or(Seen::NotYet("nobody leads".to_owned()), Seen::Yes))
        })
        .await
    }

    /// Begins a group.
    pub async fn play(&mut self, group: &str) -> Result<Play<'_>> {
        let witness = Witness::new(&self.world, group).await?;
        Ok(Play { stage: self, group: group.to_owned(), witness, pods: Vec::new() })
    }
}

impl Play<'_> {
    /// Creates a pod of the group on a node, and reads its file from now on.
    pub async fn pod(&mut self, name: &str, home: Home, node: usize) -> Result<()> {
        let node = self.stage.nodes[node].clone();
        let mut pod: Value = worker(&format!("{}-{name}", self.group), &self.group, 2, DEVICES);
        pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
        if home == Home::Volume {
            pod["metadata"]["annotations"]["muster.dev/ranktable-delivery"] = json!("configmap");
        }
        let created = self
            .stage
            .until(name, async |world| Ok(Seen::Yes(world.create_object(pod.clone()).await?)))
            .await?;
        let uid = created["metadata"]["uid"].as_str().context("no uid")?.to_owned();
        self.witness.read(file(&self.stage.world, &node, &uid, home)?);
        self.pods.push((name.to_owned(), node, uid));
        Ok(())
    }

    /// Deletes a pod at once.
    pub async fn delete(&mut self, name: &str) -> Result<()> {
        self.pods.retain(|(known, ..)| known != name);
        let name = format!("{}-{name}", self.group);
        let params = DeleteParams::default().grace_period(0);
        self.stage.world.api::<Pod>().delete(&name, &params).await?;
        Ok(())
    }

    /// How many agents have told the leader that their pod has this generation.
    pub fn acks(&self, generation: u64) -> usize {
        let Ok(hub) = self.stage.world.hub() else { return 0 };
        let has = |node: &str, uid: &str| {
            let place = Place {
                pod_uid: uid.to_owned(),
                volume: "ranktable".to_owned(),
                file: "ranktable.json".to_owned(),
            };
            hub.table_report(node, &place).delivered.is_some_and(|(told, _)| told >= generation)
        };
        self.pods.iter().filter(|(_, node, uid)| has(node, uid)).count()
    }

    /// The record as it is.
    pub async fn record(&self) -> Result<ConfigMap> {
        Ok(records(&self.stage.world).get(&format!("{}-ranktable", self.group)).await?)
    }

    /// Waits until all pods can read one table of at least this generation, and the record says so.
    pub async fn delivered(&mut self, least: u64) -> Result<ConfigMap> {
        let (group, name) = (self.group.clone(), format!("{}-ranktable", self.group));
        let what = format!("generation {least} of {group} with all its pods");
        let map =
            self.stage.until(&what, async |world| all_have(world, &group, &name, least).await);
        let map = map.await?;
        let highest = self.witness.highest();
        ensure!(generation(&map) >= highest, "{} recorded, {highest} read", generation(&map));
        Ok(map)
    }

    /// Takes the group away, and judges what was seen.
    pub async fn end(self) -> Result<usize> {
        let map = self.record().await?;
        self.witness.saw(&map).await?;
        let pods = self.stage.world.pods(&format!("muster.dev/rank-group={}", self.group)).await?;
        let params = DeleteParams::default().grace_period(0);
        for pod in pods {
            self.stage.world.api::<Pod>().delete(&pod.name_any(), &params).await?;
        }
        let tables = self.witness.tables();
        self.witness.judge(2 * DEVICES as usize)?;
        Ok(tables)
    }
}

async fn all_have(world: &World, group: &str, name: &str, least: u64) -> Result<Seen<ConfigMap>> {
    let Some(map) = records(world).get_opt(name).await? else {
        return Ok(Seen::NotYet("no record".to_owned()));
    };
    let told = condition(&map, "RanktableDelivered");
    let now = generation(&map);
    if now < least || told.as_ref().is_none_or(|(status, ..)| status != "True") {
        let ready = condition(&map, "RanktableReady");
        return Ok(Seen::NotYet(format!("generation {now}, {told:?}, {ready:?}")));
    }
    let text = table(&map);
    let digest = map.annotations().get("muster.dev/ranktable-digest");
    ensure!(digest == Some(&Digest::of(text.as_bytes()).to_string()), "{digest:?} of {text:?}");
    let mut members = 0;
    for pod in world.pods(&format!("muster.dev/rank-group={group}")).await? {
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        members += 1;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")?;
        let by_map = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let by_map = by_map.into_iter().any(|volume| volume.config_map.is_some());
        let home = if by_map { Home::Volume } else { Home::Agent };
        let file = file(world, &node, &pod.uid().context("no uid")?, home)?;
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        if there != text {
            return Ok(Seen::NotYet(format!("{} reads {there:?}, not {text}", pod.name_any())));
        }
        if home == Home::Agent {
            let beside = std::fs::read_to_string(file.with_extension("json.generation"));
            let beside = beside.unwrap_or_default();
            if beside.trim() != now.to_string() {
                return Ok(Seen::NotYet(format!("generation {now}, beside it {beside:?}")));
            }
        }
    }
    Ok(if members == 2 { Seen::Yes(map) } else { Seen::NotYet(format!("{members} members")) })
}

/// Where a pod reads its table.
fn file(world: &World, node: &str, uid: &str, home: Home) -> Result<PathBuf> {
    let node = world.kubelets().context("no nodes")?.node(node).context("no such node")?;
    let root = &node.spec().root;
    Ok(match home {
        Home::Agent => table_file(root, uid, "ranktable.json"),
        Home::Volume => root.join(format!(
            "var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~configmap/ranktable/ranktable.json"
        )),
    })
}
