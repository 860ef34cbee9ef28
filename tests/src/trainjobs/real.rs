//! The same on a real cluster. Its API server, its controllers and the coordinator share the cores, as they do when the loop
//! sends the same writes into another namespace of it: there too the JobSet controller makes Jobs of the JobSets.

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::{Load, Run, fill, measured};
use crate::delivery::report::Report;
use crate::servings::recorder::Write;
use crate::servings::replay::{self, Replayed};
use crate::world::{KUBECONFIG, World};

/// What the loop may take, times this.
const LIMIT: f64 = 2.0;

/// Measures and prints; whether the limit is met.
pub async fn measure(load: Load, mut report: Report) -> anyhow::Result<bool> {
    println!("{} TrainJobs of 2 nodes on a real cluster, one coordinator", load.jobs);
    let run = measured(load, World::new()).await?;
    let (done, refused): (Vec<Write>, Vec<Write>) =
        run.writes.iter().cloned().partition(Write::is_done);
    let (floor, count) = replayed(&run, &done).await?;
    fill(&mut report, &run, &refused, &floor, count);
    let ratio = run.took.as_secs_f64() / floor.took.as_secs_f64();
    report.strict("all JobSets, against a loop of the same writes", ratio, LIMIT, "x");
    report.part("every TrainJob is touched, and nothing is to be done");
    report.plain("looks of the coordinator at a TrainJob", run.looks);
    let written: Vec<String> = run.resync.iter().map(Write::to_string).collect();
    report.none("writes of the coordinator, but for its lease", &written);
    Ok(report.verdict())
}

/// The writes into a namespace of their own, taken away afterwards; how many they were.
async fn replayed(run: &Run, done: &[Write]) -> anyhow::Result<(Replayed, usize)> {
    let config = Kubeconfig::read_from(std::env::var(KUBECONFIG)?)?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = format!("{}-again", run.namespace);
    let object = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces.create(&PostParams::default(), &object).await?;
    let writes = replay::moved(done, &run.namespace, &name);
    eprintln!("the same {} writes, by a plain loop …", writes.len());
    let replayed = replay::send(&client, &writes).await;
    namespaces.delete(&name, &DeleteParams::default()).await?;
    Ok((replayed?, writes.len()))
}
