//! Very many nodes in one process.

use std::time::Instant;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::names;
use muster_tests::World;
use muster_tests::world::Ended;
use muster_tests::world::jobset::selector;
use serde_json::json;

use super::workload::{NPU, jobset, replicated, template};

const NODES: u32 = 1000;

/// Memory of this process in KiB.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_nodes_cost_less_than_a_megabyte_each_and_run_a_jobset() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a thousand nodes are too much to ask of a cluster that others use");
        return Ok(());
    }
    let before = resident()?;
    let start = Instant::now();
    let plan = World::new().bare_nodes_of(Profile::Ascend910b8, NODES);
    plan.run(async |world| {
        let nodes: Api<Node> = Api::all(world.client());
        assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), NODES as usize);
        let up = (start.elapsed(), resident()?.saturating_sub(before));
        let annotations = json!({ names::RUN_SECONDS: "0" });
        let jobs = replicated("worker", 4, 50, template("i", NPU, 8, annotations));
        world.create_object(jobset("wide", 0, vec![jobs])).await?;
        assert_eq!(world.jobset_ends("wide").await?, Ended::Completed);
        let pods = world.pods(&selector("wide")).await?;
        assert_eq!(pods.len(), 200);
        let grown = resident()?.saturating_sub(before);
        let each = grown / u64::from(NODES);
        eprintln!(
            "{NODES} nodes after {:.1?} with {} MiB; {} pods ended after {:.1?} with {} MiB: \
             {each} KiB for each node (other tests of this process count too)",
            up.0,
            up.1 / 1024,
            pods.len(),
            start.elapsed(),
            grown / 1024
        );
        assert!(each < 1024, "{each} KiB for each node");
        Ok(())
    })
    .await
}
