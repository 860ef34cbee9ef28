//! The ModelServings, and the nodes that they fill.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_coordinator::ranktables;
use muster_modelserving::shape::Shape;
use muster_ranktable::inject::Injection;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::{ContainerContext, Containers};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::world::coordinators::Choices;
use crate::world::{HOLD, Plan, World};

/// Devices of each node.
pub const DEVICES: u32 = 8;

/// The seed's template for MindIE.
const TEMPLATE: &str = "ascend-ranktable-template-mindie-role";
/// An image that waits until it is let go: thousands of waiters would be thousands of threads of this process.
const WAITER: &str = "waiter:bench";
/// Requests at once.
const AT_ONCE: usize = 16;

/// How many of what.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many ModelServings there are.
    pub servings: u32,
    /// Roles of each.
    pub roles: u32,
    /// Pods of each role: one entry pod, the others workers.
    pub pods: u32,
}

// === impl Load ===

impl Load {
    /// The number of pods of all ModelServings.
    pub fn all_pods(self) -> u32 {
        self.servings * self.roles * self.pods
    }

    /// Nodes that they fill.
    pub fn nodes(self) -> u32 {
        self.all_pods().div_ceil(DEVICES)
    }

    /// The number of tables of all ModelServings.
    pub fn tables(self) -> usize {
        (self.servings * self.roles) as usize
    }

    /// A world to come: lean nodes and one coordinator. Pods wait for their tables until they are let go.
    pub fn plan(self, go: &watch::Sender<bool>) -> Plan {
        let go = go.subscribe();
        let waiter = move |context: ContainerContext| {
            let mut go = go.clone();
            async move {
                tokio::select! {
                    _gone = go.wait_for(|go| *go) => 0,
                    () = context.stop.cancelled() => 143,
                }
            }
        };
        let choices = Choices::default();
        let injection = Injection { agent_image: WAITER.to_owned(), ..choices.injection.clone() };
        // As they are shipped: with all agents on the same cores, a short lease would end for want of a turn.
        let (lease, ranktable) = (Duration::from_secs(15), ranktables::Settings::default());
        World::new()
            .lean_nodes_of(Profile::Ascend910b8, self.nodes())
            .containers(Containers::default().image(WAITER, waiter))
            .agents()
            .choices(Choices { injection, lease, ranktable, ..choices })
    }

    /// The names of all.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..self.servings).map(|number| format!("serving-{number}"))
    }

    fn serving(self, name: &str) -> Value {
        let pod = json!({ "metadata": {}, "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": HOLD,
                "resources": { "limits": { "huawei.com/Ascend910": "1" } } }] } });
        let role = |number: u32| {
            json!({ "name": format!("role-{number}"), "replicas": 1,
                "workerReplicas": self.pods - 1, "entryTemplate": pod, "workerTemplate": pod })
        };
        let roles: Vec<Value> = (0..self.roles).map(role).collect();
        json!({
            "apiVersion": Shape::Kthena.api_version(), "kind": "ModelServing",
            "metadata": { "name": name, "annotations": { "kthena.io/ranktable-template": TEMPLATE } },
            "spec": { "replicas": 1, "schedulerName": "default-scheduler",
                "template": { "roles": roles } },
        })
    }

    /// Creates all of them; when each was begun.
    pub async fn create(
        self,
        client: &Client,
        namespace: &str,
    ) -> anyhow::Result<BTreeMap<String, Instant>> {
        let api = servings(client, namespace);
        let create = async |name: String| {
            let object: DynamicObject = serde_json::from_value(self.serving(&name))?;
            let begun = Instant::now();
            api.create(&PostParams::default(), &object).await.with_context(|| name.clone())?;
            anyhow::Ok((name, begun))
        };
        futures::stream::iter(self.names()).map(create).buffered(AT_ONCE).try_collect().await
    }

    /// Changes all of them in a way that means nothing.
    pub async fn touch(self, client: &Client, namespace: &str) -> anyhow::Result<()> {
        let api = servings(client, namespace);
        let note = json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } });
        let touch = async |name: String| {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&note)).await.map(drop)
        };
        let touched = futures::stream::iter(self.names()).map(touch).buffer_unordered(AT_ONCE);
        Ok(touched.try_collect().await?)
    }
}

/// ModelServings as Kthena's users write them.
pub fn servings(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(Shape::Kthena.group(), "v1alpha1", "ModelServing");
    let resource = ApiResource::from_gvk_with_plural(&kind, "modelservings");
    Api::namespaced_with(client.clone(), namespace, &resource)
}
