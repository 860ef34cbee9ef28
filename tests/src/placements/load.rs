//! The pods, and the plain loop that binds as many.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use crate::world::scheduling::{SCHEDULER, SET, waiting_pod};
use crate::world::{Seen, World, until};

/// The scheduler's name.
pub const OURS: &str = SCHEDULER;
/// What pods ask for.
pub const DEVICE: &str = "huawei.com/Ascend910";
/// Requests at once.
pub const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(300);

/// A load of pods.
pub struct Load<'a> {
    world: &'a World,
    pods: Api<Pod>,
}

// === impl Load ===

impl<'a> Load<'a> {
    /// In this world.
    pub fn new(world: &'a World) -> Self {
        Self { world, pods: world.api() }
    }

    /// Creates so many pods of one device.
    pub async fn create(
        &self,
        set: &str,
        count: u32,
        group: &str,
        scheduler: &str,
    ) -> anyhow::Result<()> {
        let params = PostParams::default();
        let pods = (0..count as usize).map(|number| {
            let mut pod = waiting_pod(set, number, group, DEVICE, 1);
            pod["spec"]["schedulerName"] = scheduler.into();
            pod
        });
        futures::stream::iter(pods)
            .map(|pod| async {
                self.pods
                    .create(&params, &serde_json::from_value(pod)?)
                    .await
                    .map_err(anyhow::Error::from)
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// Names of all nodes, in order.
    pub async fn nodes(&self) -> anyhow::Result<Vec<String>> {
        let api: Api<PartialObjectMeta<Node>> = Api::all(self.world.client());
        let found = api.list(&ListParams::default()).await?.items;
        Ok(found.iter().map(ResourceExt::name_any).collect())
    }

    /// A group that needs so many pods.
    pub async fn group(&self, name: &str, queue: &str, least: u32) -> anyhow::Result<()> {
        self.world.pod_group(name, queue, least, json!({})).await
    }

    /// Binds the pods of a set one after the other, eight to a node.
    pub async fn bind_all(
        &self,
        set: &str,
        count: u32,
        nodes: &[String],
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        for number in 0..count {
            let node = nodes.get(number as usize / 8).context("a node for each eight pods")?;
            let name = format!("{set}-{number}");
            let binding = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            let params = PostParams::default();
            let _done: Value =
                self.pods.create_subresource("binding", &name, &params, &binding).await?;
        }
        Ok(begun.elapsed())
    }

    /// Takes all pods of a set away.
    pub async fn clear(&self, set: &str) -> anyhow::Result<()> {
        let which = ListParams::default().labels(&format!("{SET}={set}"));
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods.delete_collection(&params, &which).await?;
        let api: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.world.client(), self.world.namespace());
        until(&format!("no pods of {set}"), PATIENCE, async || {
            let left = api.list(&which.clone().limit(1)).await?.items.len();
            Ok(if left == 0 { Seen::Yes(()) } else { Seen::NotYet("some are there".to_owned()) })
        })
        .await
    }

    /// A gang of pods larger than any node: how long until the group says so.
    pub async fn impossible(&self, nodes: u32) -> anyhow::Result<Duration> {
        let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": "impossible"}});
        let begun = Instant::now();
        self.group("impossible", "greedy", 1).await?;
        self.world.create_object(waiting_pod("impossible", 0, "impossible", DEVICE, 16)).await?;
        let reason = until("a reason", PATIENCE, async || {
            let group = self.world.object(&group).await?;
            let reason = group.pointer("/status/conditions/0/reason").cloned();
            Ok(match reason {
                Some(Value::String(reason)) if reason != "NotEnoughPods" => Seen::Yes(reason),
                _ => Seen::NotYet(format!("none, with {nodes} nodes")),
            })
        })
        .await?;
        let took = begun.elapsed();
        ensure!(reason == "LargerThanAnyNode", "the reason is {reason}");
        Ok(took)
    }
}
