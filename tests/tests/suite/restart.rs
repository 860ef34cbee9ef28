//! Parts that go away in the middle and come back.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use muster_tests::World;
use muster_tests::world::jobset::selector;
use muster_tests::world::{Ended, HOLD, HeldDevices};
use serde_json::json;

use super::workload::{NPU, jobset, pod, replicated, template};

/// Who holds what, by pod uid.
async fn held(world: &World, pods: &[Pod]) -> Result<BTreeMap<String, HeldDevices>> {
    let mut all = BTreeMap::new();
    for pod in pods {
        all.insert(pod.uid().unwrap_or_default(), world.devices(pod).await?);
    }
    Ok(all)
}

/// Two on each of two nodes: together they hold all devices.
async fn four_pods(world: &World) -> Result<Vec<Pod>> {
    let jobs = replicated("worker", 2, 2, template(HOLD, NPU, 4, json!({})));
    world.create_object(jobset("set", 0, vec![jobs])).await?;
    world.pods_in(&selector("set"), 4, "Running").await
}

/// Lets the pods end; the JobSet completes with the very pods that it had.
async fn completes_with(world: &World, before: &[Pod]) -> Result<()> {
    world.gate().open();
    assert_eq!(world.jobset_ends("set").await?, Ended::Completed);
    let uids = |pods: &[Pod]| pods.iter().map(ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&world.pods(&selector("set")).await?), uids(before));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_that_restarts_loses_nothing() -> Result<()> {
    World::new()
        .nodes(1)
        .run(async |world| {
            // A pod that was there before and is gone: the devices of the others are not those that a kubelet
            // without memory would choose.
            world.create_object(pod("early", template("i", NPU, 3, json!({})))).await?;
            let early = world.pods_in("", 1, "Running").await?;
            let jobs = replicated("worker", 1, 2, template(HOLD, NPU, 2, json!({})));
            world.create_object(jobset("set", 0, vec![jobs])).await?;
            let pods = world.pods_in(&selector("set"), 2, "Running").await?;
            world.api::<Pod>().delete(&early[0].name_any(), &DeleteParams::default()).await?;
            world.pods_in("", 2, "Running").await?;
            let before = held(world, &pods).await?;
            let ids: BTreeSet<&String> =
                before.values().flat_map(|devices| &devices[NPU]).collect();
            let expected: Vec<String> = (3..7).map(|n| format!("Ascend910-{n}")).collect();
            assert_eq!(ids, expected.iter().collect());

            let node = world.kubelets().and_then(|all| all.nodes().next()).context("a node")?;
            node.stop().await?;
            let asked = world.devices(&pods[0]).await;
            assert!(asked.is_err(), "the kubelet is down and answers {asked:?}");
            node.restart().await?;
            let after = world.pods_in(&selector("set"), 2, "Running").await?;
            assert_eq!(held(world, &after).await?, before);
            completes_with(world, &pods).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_with_its_store_does_not_disturb_a_jobset() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: the server of a real cluster is not ours to restart");
        return Ok(());
    }
    World::new()
        .nodes(2)
        .run(async |world| {
            let pods = four_pods(world).await?;
            let before = held(world, &pods).await?;
            let over_http = world.sandbox().context("a sandbox")?.http_client()?;
            over_http.apiserver_version().await?;
            world.sandbox_mut().context("a sandbox")?.restart().await?;
            over_http.apiserver_version().await?;
            let after = world.pods_in(&selector("set"), 4, "Running").await?;
            assert_eq!(held(world, &after).await?, before);
            completes_with(world, &pods).await
        })
        .await
}
