//! Coordinators die at every write for a ModelServing: what is there in the end is what is there when nobody dies.
//!
//! A ModelServing is created, scaled, rolled, loses a pod, and goes. In every one of these steps a coordinator dies at the
//! same write; then its picture must become the one of a life without kills: pods, services, revisions, records and status. No
//! more pods than there may be made on the way.

mod picture;

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::world::serving::selector;
use muster_tests::world::{PATIENCE, Seen, Side, table_file};
use serde_json::{Value, json};

use super::play::Stage;
use super::witness::Witness;
use crate::suite::modelserving::{kthena, seed};
use crate::suite::ranktable::TEMPLATE;
use picture::{Picture, Uids};

/// How long nobody writes when all is done.
const QUIET: std::time::Duration = std::time::Duration::from_millis(700);

/// What happens to a ModelServing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Scale,
    Roll,
    Lose,
    End,
}

const ACTS: [Act; 5] = [Act::Create, Act::Scale, Act::Roll, Act::Lose, Act::End];

struct Life<'a> {
    stage: &'a mut Stage,
    shape: Shape,
    name: String,
    /// Sees its table; none has one in Kthena's shape here.
    witness: Option<Witness>,
    read: BTreeSet<String>,
    uids: Uids,
}

/// What an act came to without kills, and its writes.
struct Dry {
    picture: Picture,
    writes: Vec<String>,
    /// Pods that came. Who dies before it hears that one is lost replaces no others with it.
    pods: usize,
}

impl Act {
    fn replicas(self) -> u32 {
        if self == Self::Create { 1 } else { 2 }
    }

    /// Pods in the end.
    fn pods(self, shape: Shape) -> usize {
        match (self, shape) {
            (Self::End, _) => 0,
            (_, Shape::Short) => self.replicas() as usize,
            // An entry pod and a worker.
            (_, Shape::Kthena) => 2 * self.replicas() as usize,
        }
    }

    fn is_rolled(self) -> bool {
        matches!(self, Self::Roll | Self::Lose)
    }

    fn manifest(self, shape: Shape, name: &str) -> Value {
        let replicas = self.replicas();
        let (mut serving, templates) = match shape {
            Shape::Short => {
                (seed(name, TEMPLATE, &[("worker", replicas, 1)]), vec!["/spec/roles/0/template"])
            }
            Shape::Kthena => (
                kthena(name, 1, &[("web", replicas, 1, 0)]),
                vec![
                    "/spec/template/roles/0/entryTemplate",
                    "/spec/template/roles/0/workerTemplate",
                ],
            ),
        };
        for template in templates.into_iter().filter(|_| self.is_rolled()) {
            if let Some(template) = serving.pointer_mut(template) {
                template["spec"]["containers"][0]["env"] =
                    json!([{"name": "ROLLED", "value": "1"}]);
            }
        }
        serving
    }
}

impl<'a> Life<'a> {
    async fn new(stage: &'a mut Stage, shape: Shape, name: &str) -> Result<Self> {
        let witness = match shape {
            Shape::Short => Some(Witness::new(&stage.world, &format!("{name}-worker")).await?),
            Shape::Kthena => None,
        };
        let uids = Uids::watch(&stage.world, name);
        Ok(Self { stage, shape, name: name.to_owned(), witness, read: BTreeSet::new(), uids })
    }

    /// Says what is wanted now.
    async fn begin(&mut self, act: Act) -> Result<()> {
        let (shape, name) = (self.shape, self.name.clone());
        let manifest = act.manifest(shape, &name);
        match act {
            Act::Create => {
                let create = async |world: &World| {
                    Ok(Seen::Yes(world.create_object(manifest.clone()).await.map(drop)?))
                };
                self.stage.until("the creation", create).await
            }
            Act::Scale | Act::Roll => {
                let kept = self.stage.world.kept(manifest);
                let change = Patch::Merge(json!({"spec": kept["spec"]}));
                let patch = async |world: &World| {
                    let api = world.servings(shape);
                    Ok(Seen::Yes(
                        api.patch(&name, &PatchParams::default(), &change).await.map(drop)?,
                    ))
                };
                self.stage.until("the change", patch).await
            }
            Act::Lose => {
                let pods = self.stage.world.pods(&selector(&name)).await?;
                let last = pods.last().context("no pod")?.name_any();
                let at_once = DeleteParams::default().grace_period(0);
                self.stage.world.api::<Pod>().delete(&last, &at_once).await?;
                Ok(())
            }
            Act::End => {
                let api = self.stage.world.servings(shape);
                api.delete(&name, &DeleteParams::default()).await?;
                Ok(())
            }
        }
    }

    /// Reads the tables of pods that have come.
    async fn look(&mut self) -> Result<()> {
        let Some(witness) = &mut self.witness else { return Ok(()) };
        for pod in self.stage.world.pods(&selector(&self.name)).await? {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let (Some(node), Some(uid)) = (node, pod.uid()) else { continue };
            if self.read.insert(uid.clone()) {
                let kubelets = self.stage.world.kubelets().context("no nodes")?;
                let root = kubelets.node(&node).context("no such node")?.spec().root.clone();
                witness.read(table_file(&root, &uid, "ranktable.json"));
            }
        }
        Ok(())
    }

    /// Waits until it is as it should be: as it was without kills, or else until nothing happens any more.
    async fn done(&mut self, act: Act, dry: Option<&Picture>) -> Result<Picture> {
        let what = format!("{act:?} of {}", self.name);
        let (shape, name) = (self.shape, self.name.clone());
        let end = Instant::now() + PATIENCE;
        loop {
            self.look().await?;
            let look =
                async |world: &World| Ok(Seen::Yes(Picture::take(world, shape, &name, act).await));
            let seen = match (self.stage.until(&what, look).await?, dry) {
                (Ok(picture), Some(dry)) if picture == *dry => return Ok(picture),
                (Ok(picture), Some(dry)) => format!("{picture:#?}, not {dry:#?}"),
                (Ok(picture), None) => {
                    let writes = self.stage.guillotine.writes().len();
                    tokio::time::sleep(QUIET).await;
                    let now = self.stage.until(&what, look).await?;
                    if now.is_ok_and(|now| now == picture)
                        && self.stage.guillotine.writes().len() == writes
                    {
                        return Ok(picture);
                    }
                    "something is still written".to_owned()
                }
                (Err(error), _) => format!("{error:#}"),
            };
            ensure!(Instant::now() < end, "waited for {what}; last seen: {seen}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Judges what could be read.
    fn end(self) -> Result<()> {
        // One device each, one pod or two.
        self.witness.map_or(Ok(()), |witness| witness.judge_sizes(&[1, 2]))
    }
}

/// A life without kills.
async fn dry(stage: &mut Stage, shape: Shape) -> Result<Vec<Dry>> {
    let mut life = Life::new(stage, shape, "walked-dry").await?;
    let mut all = Vec::new();
    for act in ACTS {
        life.stage.guillotine.arm(None);
        let before = life.uids.count();
        life.begin(act).await?;
        let picture = life.done(act, None).await?;
        let (writes, pods) = (life.stage.guillotine.writes(), life.uids.count() - before);
        println!("{act:?}: {} writes {writes:#?}\n{picture:#?}", writes.len());
        all.push(Dry { picture, writes, pods });
    }
    life.end()?;
    Ok(all)
}

/// A life in which a coordinator dies at one write of every act.
async fn killed(stage: &mut Stage, shape: Shape, all: &[Dry], at: usize, side: Side) -> Result<()> {
    let mut life = Life::new(stage, shape, &format!("walked-{at}")).await?;
    for (act, dry) in ACTS.into_iter().zip(all) {
        let chosen = (at <= dry.writes.len()).then_some((at, side));
        life.stage.guillotine.arm(chosen);
        let before = life.uids.count();
        life.begin(act).await?;
        let done = life.done(act, Some(&dry.picture)).await;
        let writes = life.stage.guillotine.writes();
        done.with_context(|| format!("killed {side:?} write {at} of {act:?}: {writes:#?}"))?;
        let pods = life.uids.count() - before;
        let most = dry.pods;
        ensure!(
            pods <= most,
            "{pods} pods, not {most}: {side:?} write {at} of {act:?}: {writes:#?}"
        );
        life.stage.guillotine.arm(None);
    }
    life.end()
}

async fn walk(shape: Shape, side: Side) -> Result<()> {
    let begun = Instant::now();
    Stage::run(async |stage| {
        let all = dry(stage, shape).await.context("without a kill")?;
        let most = all.iter().map(|dry| dry.writes.len()).max().unwrap_or_default();
        let chosen = super::chosen(most);
        for at in chosen.iter().copied() {
            let since = Instant::now();
            killed(stage, shape, &all, at, side).await?;
            println!("{at} of {most}: {} kills, {:.1?}", stage.kills, since.elapsed());
        }
        println!("{} kills, {:.1?}", stage.kills, begun.elapsed());
        let reached = |at: &usize| all.iter().filter(|dry| dry.writes.len() >= *at).count();
        let writes: usize = chosen.iter().map(reached).sum();
        // How often the status is written on the way is chance.
        ensure!(stage.kills * 2 >= writes, "only {} kills at {writes} writes", stage.kills);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_any_write_a_modelserving_with_a_table_becomes_what_it_should() -> Result<()>
{
    walk(Shape::Short, Side::Before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_a_modelserving_with_a_table_becomes_what_it_should() -> Result<()> {
    walk(Shape::Short, Side::After).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_any_write_a_plain_modelserving_becomes_what_it_should() -> Result<()> {
    walk(Shape::Kthena, Side::Before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_a_plain_modelserving_becomes_what_it_should() -> Result<()> {
    walk(Shape::Kthena, Side::After).await
}
