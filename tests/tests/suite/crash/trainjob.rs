//! Coordinators die at every write for a TrainJob: what is there in the end is what is there when nobody dies.
//!
//! A job is created suspended, with keys and a host file; it is let run, its time is over, and it goes. In every one of these
//! steps a coordinator dies at the same write. Then its picture must become the one of a life without kills, and nothing that
//! is made once was made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use muster_tests::World;
use muster_tests::world::{PATIENCE, Seen, Side};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::play::Stage;
use crate::suite::trainjob::{held, job, mpi};

/// How long nobody writes when all is done.
const QUIET: Duration = Duration::from_millis(700);

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Run,
    Late,
    End,
}

const ACTS: [Act; 4] = [Act::Create, Act::Run, Act::Late, Act::End];

/// Uids of all that was ever seen, by kind.
type Uids = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

/// One job and its runtime.
struct Life<'a> {
    stage: &'a mut Stage,
    name: String,
    uids: Uids,
    watching: Vec<tokio::task::JoinHandle<()>>,
}

/// What an act came to without kills, and its writes.
struct Dry {
    picture: Value,
    writes: Vec<String>,
}

fn follow<K>(api: Api<K>, job: &str, uids: &Uids) -> tokio::task::JoinHandle<()>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut stream =
        watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let (job, uids) = (job.to_owned(), uids.clone());
    tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            if let Ok(object) = event
                && object.name_any().starts_with(&job)
            {
                let uid = object.uid().unwrap_or_default();
                uids.lock().entry(object.name_any()).or_default().insert(uid);
            }
        }
    })
}

/// All that there is of a job, without what differs from life to life.
async fn picture(world: &World, name: &str, act: Act) -> Result<Value> {
    let jobs = world.trainjobs();
    let found = jobs.get_opt(name).await?;
    let job = serde_json::to_value(&found)?;
    let runtime = world.runtimes().get(name).await?;
    let set = serde_json::to_value(world.jobsets().get_opt(name).await?)?;
    let mut maps = BTreeMap::new();
    for map in world.api::<ConfigMap>().list(&Default::default()).await?.items {
        if map.name_any().starts_with(name) && map.metadata.owner_references.is_some() {
            let data: Vec<String> = map.data.iter().flatten().map(|(key, _)| key.clone()).collect();
            maps.insert(map.name_any().replace(name, "*"), data);
        }
    }
    let secret = world.api::<Secret>().get_opt(&format!("{name}-mpi-ssh-auth")).await?;
    let conditions: Vec<Value> = job["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| json!([one["type"], one["status"], one["reason"]]))
        .collect();
    let known = |label: &str| conditions.iter().any(|one| one[0] == label && one[1] == "True");
    let ready = job["status"]["jobsStatus"]
        .as_array()
        .map_or(0, |jobs| jobs.iter().filter(|one| one["ready"] == 1).count());
    match act {
        Act::Create => ensure!(known("Suspended") && set["spec"]["suspend"] == true, "{job} {set}"),
        Act::Run => ensure!(!known("Suspended") && ready == 2, "{}", job["status"]),
        Act::Late => ensure!(known("Failed") && set.is_null(), "{} {set}", job["status"]),
        Act::End => {
            ensure!(found.is_none() && maps.is_empty() && secret.is_none(), "{job} {maps:?}")
        }
    }
    let jobs = match act {
        // When the last pod was seen is chance.
        Act::Late => Value::Null,
        _ => job["status"]["jobsStatus"].clone(),
    };
    Ok(json!({"conditions": conditions, "jobs": jobs, "set": set["spec"], "maps": maps,
        "keys": secret.is_some(), "finalizers": runtime.metadata.finalizers}))
}

impl<'a> Life<'a> {
    async fn new(stage: &'a mut Stage, name: &str) -> Result<Self> {
        let uids = Uids::default();
        let world = &stage.world;
        let watching = vec![
            follow(world.api::<ConfigMap>(), name, &uids),
            follow(world.api::<Secret>(), name, &uids),
        ];
        let mut runtime = mpi(name, held(), held());
        runtime["kind"] = json!("TrainingRuntime");
        world.create_object(runtime).await?;
        Ok(Self { stage, name: name.to_owned(), uids, watching })
    }

    async fn patch(&mut self, what: &str, change: Value) -> Result<()> {
        let (name, change) = (self.name.clone(), Patch::Merge(change));
        let patch = async |world: &World| {
            let jobs = world.trainjobs();
            Ok(Seen::Yes(jobs.patch(&name, &PatchParams::default(), &change).await.map(drop)?))
        };
        self.stage.until(what, patch).await
    }

    /// Says what is wanted now.
    async fn begin(&mut self, act: Act) -> Result<()> {
        match act {
            Act::Create => {
                let mut job = job(&self.name, &self.name, 1);
                job["spec"]["runtimeRef"]["kind"] = json!("TrainingRuntime");
                job["spec"]["suspend"] = json!(true);
                let create = async |world: &World| {
                    Ok(Seen::Yes(world.create_object(job.clone()).await.map(drop)?))
                };
                self.stage.until("the creation", create).await
            }
            Act::Run => self.patch("the start", json!({"spec": {"suspend": false}})).await,
            Act::Late => {
                self.patch("the deadline", json!({"spec": {"activeDeadlineSeconds": 1}})).await
            }
            Act::End => {
                let jobs = self.stage.world.trainjobs();
                jobs.delete(&self.name, &DeleteParams::default()).await?;
                Ok(())
            }
        }
    }

    /// Waits until it is as it should be: as it was without kills, or else until nothing happens any more.
    async fn done(&mut self, act: Act, dry: Option<&Value>) -> Result<Value> {
        let what = format!("{act:?} of {}", self.name);
        let name = self.name.clone();
        let end = Instant::now() + PATIENCE;
        loop {
            let look = async |world: &World| Ok(Seen::Yes(picture(world, &name, act).await));
            let seen = match (self.stage.until(&what, look).await?, dry) {
                (Ok(picture), Some(dry)) if picture == *dry => return Ok(picture),
                (Ok(picture), Some(dry)) => format!("{picture:#}, not {dry:#}"),
                (Ok(picture), None) => {
                    let writes = self.stage.guillotine.writes().len();
                    tokio::time::sleep(QUIET).await;
                    let now = self.stage.until(&what, look).await?;
                    let quiet = self.stage.guillotine.writes().len() == writes;
                    if quiet && now.is_ok_and(|now| now == picture) {
                        return Ok(picture);
                    }
                    "something is still written".to_owned()
                }
                (Err(error), _) => format!("{error:#}"),
            };
            ensure!(Instant::now() < end, "waited for {what}; last seen: {seen}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether something was made twice.
    fn end(self) -> Result<()> {
        self.watching.iter().for_each(tokio::task::JoinHandle::abort);
        let seen = self.uids.lock().clone();
        ensure!(seen.len() >= 3, "too little was seen: {seen:?}");
        let twice: Vec<_> = seen.iter().filter(|(_, uids)| uids.len() != 1).collect();
        ensure!(twice.is_empty(), "made more than once: {twice:?}");
        Ok(())
    }
}

async fn dry(stage: &mut Stage) -> Result<Vec<Dry>> {
    let mut life = Life::new(stage, "trained-dry").await?;
    let mut all = Vec::new();
    for act in ACTS {
        life.stage.guillotine.arm(None);
        life.begin(act).await?;
        let picture = life.done(act, None).await?;
        let writes = life.stage.guillotine.writes();
        println!("{act:?}: {} writes {writes:#?}\n{picture:#}", writes.len());
        all.push(Dry { picture, writes });
    }
    life.end()?;
    Ok(all)
}

async fn killed(stage: &mut Stage, all: &[Dry], at: usize, side: Side) -> Result<()> {
    let mut life = Life::new(stage, &format!("trained-{at}")).await?;
    for (act, dry) in ACTS.into_iter().zip(all) {
        let chosen = (at <= dry.writes.len()).then_some((at, side));
        life.stage.guillotine.arm(chosen);
        life.begin(act).await?;
        let wanted = renamed(&dry.picture, &life.name);
        let done = life.done(act, Some(&wanted)).await;
        let writes = life.stage.guillotine.writes();
        done.with_context(|| format!("killed {side:?} write {at} of {act:?}: {writes:#?}"))?;
        life.stage.guillotine.arm(None);
    }
    life.end()
}

/// The picture of a job of another name.
fn renamed(picture: &Value, name: &str) -> Value {
    let text = picture.to_string().replace("trained-dry", name);
    serde_json::from_str(&text).unwrap_or_default()
}

async fn walk(side: Side) -> Result<()> {
    let begun = Instant::now();
    Stage::run(async |stage| {
        let all = dry(stage).await.context("without a kill")?;
        let most = all.iter().map(|dry| dry.writes.len()).max().unwrap_or_default();
        let chosen = super::chosen(most);
        for at in chosen.iter().copied() {
            let since = Instant::now();
            killed(stage, &all, at, side).await?;
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
async fn killed_before_any_write_a_trainjob_becomes_what_it_should() -> Result<()> {
    walk(Side::Before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_a_trainjob_becomes_what_it_should() -> Result<()> {
    walk(Side::After).await
}
