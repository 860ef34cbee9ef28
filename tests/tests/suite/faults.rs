//! A server under stress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use muster_sandbox::faults::{Fault, Rule};
use muster_sandbox::kubelet::names;
use muster_tests::World;
use muster_tests::world::jobset::selector;
use muster_tests::world::{Ended, Seen};
use serde_json::json;

use super::workload::{NPU, jobset, replicated, template};

/// Another one can be tried with `MUSTER_SEED`.
const SEED: u64 = 20_261_116;

/// The uids of all pods that were ever seen for a job and an index.
type Created = Arc<Mutex<BTreeMap<(String, String), BTreeSet<String>>>>;

fn note(created: &Created, pod: &Pod) {
    let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
    let key =
        (label("batch.kubernetes.io/job-name"), label("batch.kubernetes.io/job-completion-index"));
    let mut created = created.lock().unwrap_or_else(PoisonError::into_inner);
    created.entry(key).or_default().insert(pod.uid().unwrap_or_default());
}

async fn follow(world: &World, created: Created) -> tokio::task::JoinHandle<()> {
    let stream = watcher(world.api::<Pod>(), watcher::Config::default()).default_backoff();
    let mut stream = stream.applied_objects().boxed();
    tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            if let Ok(pod) = event {
                note(&created, &pod);
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_faults_a_jobset_still_completes_and_no_pod_is_made_twice() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a real server fails when it likes");
        return Ok(());
    }
    let seed = match std::env::var("MUSTER_SEED") {
        Ok(seed) => seed.parse().context("MUSTER_SEED")?,
        Err(_) => SEED,
    };
    let outcome = World::new().nodes(4).seed(seed).run(async |world| {
        let created = Created::default();
        let following = follow(world, created.clone()).await;
        let faults = world.sandbox().context("a sandbox")?.faults();
        faults.add(Rule::refusal(500).chance(0.1));
        faults.add(Rule::new(Fault::DropWatches).chance(0.03));
        faults.add(Rule::new(Fault::Compact).chance(0.03));

        let annotations = json!({ names::RUN_SECONDS: "0" });
        let jobs = replicated("worker", 5, 4, template("i", NPU, 2, annotations));
        world.create_object(jobset("hardy", 0, vec![jobs])).await?;
        let ended = world.jobset_ends("hardy").await?;
        let struck = faults.struck();
        faults.clear();
        anyhow::ensure!(ended == Ended::Completed, "{}", world.jobset("hardy").await?["status"]);
        anyhow::ensure!(struck > 20, "only {struck} faults struck");

        let pods = world
            .until("the pods of all indexes", async || {
                let pods = world.pods(&selector("hardy")).await?;
                Ok(match pods.len() {
                    20.. => Seen::Yes(pods),
                    fewer => Seen::NotYet(format!("{fewer} pods")),
                })
            })
            .await?;
        pods.iter().for_each(|pod| note(&created, pod));
        following.abort();
        let created = created.lock().unwrap_or_else(PoisonError::into_inner).clone();
        anyhow::ensure!(created.len() == 20, "not 20 jobs and indexes: {created:?}");
        let twice: Vec<_> = created.iter().filter(|(_, uids)| uids.len() != 1).collect();
        anyhow::ensure!(twice.is_empty(), "made more than once: {twice:?}");
        eprintln!("{struck} faults struck");
        Ok(())
    });
    outcome.await.with_context(|| format!("MUSTER_SEED={seed}"))
}
