//! The same content through ConfigMap volumes, on kubelets with the default sync period.
//!
//! The clock is moved by hand, a second at a time: minutes of waiting pass in seconds. What a pod's change sets off is
//! measured in real time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_sandbox::Sandbox;
use muster_sandbox::clock::Clock;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::{KubeletOptions, NodeSpec};
use serde_json::json;

use crate::world::{Seen, until};

const MAP: &str = "bench-ranktable";
const FILE: &str = "ranktable.json";
const SECOND: Duration = Duration::from_secs(1);
/// Real time that kubelets get for what a second brings.
const TURN: Duration = Duration::from_millis(20);
/// Until pods that began together look at different moments, and a limit for everything else, in seconds.
const APART: u32 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

/// Times from the ConfigMap's write to each file, sorted.
pub struct Volumes {
    /// Left alone, by the hand-moved clock.
    pub alone: Vec<Duration>,
    /// With a patch of each pod, in real time.
    pub patched: Vec<Duration>,
}

/// Shows a table in the volumes of so many pods, one per node.
pub async fn measure(table: &str, pods: u32) -> anyhow::Result<Volumes> {
    let folder = tempfile::Builder::new().prefix("muster-").tempdir()?;
    let clock = Clock::by_hand(Clock::machine().now());
    let node = |n: u32| {
        let name = format!("n{n}");
        NodeSpec::lean(&name, Profile::Ascend910b8, n, folder.path().join(&name))
    };
    let nodes: Vec<NodeSpec> = (0..pods).map(node).collect();
    let roots: Vec<PathBuf> = nodes.iter().map(|node| node.root.clone()).collect();
    let sandbox = Sandbox::builder()
        .clock(clock.clone())
        .kubelet(KubeletOptions::default())
        .nodes(nodes)
        .start()
        .await?;
    let measured = show(&sandbox.client(), &clock, &roots, table).await;
    sandbox.stop().await;
    measured
}

async fn show(
    client: &Client,
    clock: &Clock,
    roots: &[PathBuf],
    table: &str,
) -> anyhow::Result<Volumes> {
    let (maps, pods): (Api<ConfigMap>, Api<Pod>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    until("the default service account", PATIENCE, async || {
        let there = accounts.get_opt("default").await?.is_some();
        clock.advance(SECOND);
        Ok(if there { Seen::Yes(()) } else { Seen::NotYet("none".to_owned()) })
    })
    .await?;
    let map = |text: &str| -> anyhow::Result<ConfigMap> {
        Ok(serde_json::from_value(json!({ "metadata": { "name": MAP }, "data": { FILE: text } }))?)
    };
    maps.create(&PostParams::default(), &map("")?).await?;
    let made: Vec<Pod> = futures::stream::iter(0..roots.len())
        .map(|n| {
            let pods = &pods;
            async move {
                let pod = serde_json::from_value(json!({
                    "metadata": { "name": format!("p{n}") },
                    "spec": { "nodeName": format!("n{n}"), "automountServiceAccountToken": false,
                        "containers": [{ "name": "c", "image": "i",
                            "volumeMounts": [{ "name": "t", "mountPath": "/t" }] }],
                        "volumes": [{ "name": "t", "configMap": { "name": MAP } }] },
                }))?;
                anyhow::Ok(pods.create(&PostParams::default(), &pod).await?)
            }
        })
        .buffered(16)
        .try_collect()
        .await?;
    let file = |(pod, root): (&Pod, &PathBuf)| {
        let uid = pod.uid().context("no uid")?;
        Ok(root
            .join(format!("var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~configmap/t/{FILE}")))
    };
    let files: Vec<PathBuf> = made.iter().zip(roots).map(file).collect::<anyhow::Result<_>>()?;
    until("the volumes", PATIENCE, async || {
        let there = files.iter().filter(|file| file.exists()).count();
        Ok(if there == files.len() { Seen::Yes(()) } else { Seen::NotYet(there.to_string()) })
    })
    .await?;
    for _ in 0..APART {
        clock.advance(SECOND);
        tokio::time::sleep(TURN / 4).await;
    }
    let shown = |text: &str| {
        let is = |file: &&PathBuf| std::fs::read(file).is_ok_and(|bytes| bytes == text.as_bytes());
        files.iter().filter(is).count()
    };
    maps.replace(MAP, &PostParams::default(), &map(table)?).await?;
    let mut alone = Vec::new();
    for second in 0..200 {
        tokio::time::sleep(TURN).await;
        alone.resize(shown(table), SECOND * second);
        if alone.len() == files.len() {
            break;
        }
        clock.advance(SECOND);
    }
    anyhow::ensure!(alone.len() == files.len(), "{} files of {}", alone.len(), files.len());

    let next = format!("{table} ");
    maps.replace(MAP, &PostParams::default(), &map(&next)?).await?;
    let begun = Instant::now();
    let patch =
        json!({ "metadata": { "annotations": { "muster.dev/ranktable-generation": "2" } } });
    futures::stream::iter(&made)
        .map(async |pod| {
            let params = PatchParams::default();
            pods.patch(&pod.name_any(), &params, &Patch::Merge(&patch)).await
        })
        .buffer_unordered(16)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let mut patched = Vec::new();
    until("the volumes of patched pods", PATIENCE, async || {
        patched.resize(shown(&next), begun.elapsed());
        let all = patched.len() == files.len();
        Ok(if all { Seen::Yes(()) } else { Seen::NotYet(patched.len().to_string()) })
    })
    .await?;
    Ok(Volumes { alone, patched })
}
