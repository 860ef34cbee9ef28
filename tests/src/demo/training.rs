//! TrainJobs run to their end: Torch on two nodes with eight devices each, and MPI with a file of hosts. Their containers are
//! processes of this machine, which check what they are given.

use std::time::Instant;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::LogParams;
use serde_json::Value;

use super::narrator::Narrator;
use super::story::{take_away, wait};
use crate::World;
use crate::world::Seen;
use crate::world::jobset::{selector, summary};

const MANIFEST: &str = include_str!("training.yaml");

/// A TrainJob that is shown.
struct Act {
    name: &'static str,
    what: &'static str,
    /// The container whose words are shown.
    speaker: &'static str,
    words: &'static [&'static str],
}

const ACTS: [Act; 2] = [
    Act {
        name: "torch",
        what: "torch, 2 nodes x 8 GPUs; each process checks its PET_ variables",
        speaker: "-node-",
        words: &[
            "rank 0 of 2 x 8, master torch-node-0-0.torch:29500",
            "rank 1 of 2 x 8, master torch-node-0-0.torch:29500",
        ],
    },
    Act {
        name: "mpi",
        what: "MPI, a launcher and 2 nodes; the launcher reads its host file and its key",
        speaker: "-launcher-",
        words: &["mpi-node-0-0.mpi slots=8", "mpi-node-0-1.mpi slots=8", "launched"],
    },
];

/// Shows both. An error if one of them does not complete, or finds something else than it should.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    if World::is_real() {
        narrator.step("TrainJobs are left out: their processes belong to the sandbox");
        return Ok(());
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(MANIFEST)?;
    let (jobs, runtimes): (Vec<Value>, Vec<Value>) =
        documents.into_iter().partition(|document| document["kind"] == "TrainJob");
    for runtime in runtimes {
        world.create_object(runtime).await?;
    }
    for (act, job) in ACTS.iter().zip(jobs) {
        narrator.step(&format!("submitting TrainJob {}:\n{:8}{}", act.name, "", act.what));
        world.train(job).await?;
        let begun = Instant::now();
        let after = || format!("{:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
        wait(narrator, "its JobSet", async || {
            let found = world.jobsets().get_opt(act.name).await?;
            Ok(found.map_or(Seen::NotYet("none".to_owned()), |_| Seen::Yes(())))
        })
        .await?;
        narrator.more(&format!("its runtime is kept and its JobSet is there after {}", after()));
        wait(narrator, "its end", async || {
            let seen = world.look_at_trainjob(act.name, "Complete", "True").await?;
            Ok(match seen {
                Seen::NotYet(_) => Seen::NotYet(summary(&world.pods(&selector(act.name)).await?)),
                seen => seen,
            })
        })
        .await?;
        narrator.step(&format!(
            "TrainJob {} is complete after {}; its processes say:",
            act.name,
            after()
        ));
        let said = said(world, act).await?;
        ensure!(said == act.words, "{said:?}, not {:?}", act.words);
        narrator.more(&said.join("\n"));
        let (jobs, pods) = (world.trainjobs(), selector(act.name));
        take_away(narrator, world, &jobs, act.name, &pods).await?;
    }
    Ok(())
}

/// What the containers of an act have said, by pod.
async fn said(world: &World, act: &Act) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for pod in world.pods(&selector(act.name)).await? {
        if pod.name_any().contains(act.speaker) {
            let log = world.api::<Pod>().logs(&pod.name_any(), &LogParams::default()).await?;
            let lines = log.lines().filter(|line| !line.starts_with("exit "));
            all.extend(lines.map(str::to_owned));
        }
    }
    if act.speaker == "-node-" {
        all.sort();
    }
    Ok(all)
}
