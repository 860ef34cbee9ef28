//! What the scheduler's tests need: queues, groups, and pods that wait for it.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use muster_scheduling::bootstrap::queues;
use serde_json::{Value, json};

use super::plan::WORLD;
use super::{Seen, World};

const DEFAULTS: &str = include_str!("../../../deploy/coordinator/scheduler-defaults.yaml");
/// The scheduler's name.
pub const SCHEDULER: &str = "muster-scheduler";
/// The label that joins pods of a test.
pub const SET: &str = "test.muster.dev/set";

impl World {
    /// A queue; limits and quotas are of devices.
    pub async fn queue(&self, name: &str, parent: &str, quota: f64, limit: f64) -> Result<()> {
        let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
        let mut spec = json!({"resources": {"cpu": free, "memory": free,
            "gpu": {"quota": quota, "overQuotaWeight": 1, "limit": limit}}});
        if !parent.is_empty() {
            spec["parentQueue"] = parent.into();
        }
        let queue = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": name}, "spec": spec});
        self.create_object(queue).await.map(drop)
    }

    /// A pod group that needs so many pods.
    pub async fn pod_group(&self, name: &str, queue: &str, least: u32, more: Value) -> Result<()> {
        let mut spec = json!({"queue": queue, "minMember": least});
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": spec});
        self.create_object(group).await.map(drop)
    }

    /// What there is before pods share devices: priority classes, the namespace of reservations, and the RuntimeClass that such
    /// pods get. That one goes with the world; the others a cluster keeps.
    pub async fn prepare_sharing(&self) -> Result<()> {
        for document in serde_saphyr::from_multiple::<Value>(DEFAULTS)? {
            self.create_if_missing(document).await?;
        }
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "nvidia", "labels": {WORLD: self.own("class")}}, "handler": "nvidia"});
        self.create_if_missing(class).await
    }

    /// Waits until so many pods of a set have a node; returns them.
    pub async fn placed(&self, set: &str, count: usize) -> Result<Vec<Pod>> {
        self.until(&format!("{count} pods of {set} have nodes"), async || {
            let pods = self.pods_of(set).await?;
            let placed: Vec<Pod> = pods.into_iter().filter(|pod| node(pod).is_some()).collect();
            Ok(if placed.len() == count {
                Seen::Yes(placed)
            } else {
                Seen::NotYet(format!("{} have", placed.len()))
            })
        })
        .await
    }

    /// The pods of a set.
    pub async fn pods_of(&self, set: &str) -> Result<Vec<Pod>> {
        let which = ListParams::default().labels(&format!("{SET}={set}"));
        Ok(self.api::<Pod>().list(&which).await?.items)
    }
}

/// A pod of a set that asks for devices; in a group, if one is named.
pub fn waiting_pod(set: &str, number: usize, group: &str, resource: &str, devices: u32) -> Value {
    let amount = devices.to_string();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{set}-{number}"), "labels": {SET: set}},
        "spec": {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": super::HOLD,
                "resources": {"limits": {resource: amount}, "requests": {resource: amount}}}]}});
    if !group.is_empty() {
        pod["metadata"]["annotations"] = json!({"pod-group-name": group});
    }
    pod
}

/// The node of a pod.
pub fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Takes away the queues of a world that has ended, and the class of pods that share devices.
pub(super) async fn clear(client: Client, mark: &str) -> Result<()> {
    let classes: Api<RuntimeClass> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("{WORLD}={mark}-class"));
    classes.delete_collection(&DeleteParams::default(), &ours).await?;
    let api = queues(&client);
    let all = match api.list(&ListParams::default()).await {
        // The kind was never there.
        Err(kube::Error::Api(refused)) if refused.code == 404 => return Ok(()),
        all => all?.items,
    };
    for name in all.iter().map(ResourceExt::name_any).filter(|name| name.starts_with(mark)) {
        api.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}
