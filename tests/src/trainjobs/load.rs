//! The TrainJobs, and when their JobSets came.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::world::{HOLD, Seen, World};

/// The runtime of all; on a real cluster its name begins with the world's own mark.
pub const RUNTIME: &str = "torch-distributed";
/// Requests at once.
const AT_ONCE: usize = 16;

/// How many objects are created.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many TrainJobs there are.
    pub jobs: u32,
}

/// When each JobSet was first seen.
pub struct Arrivals {
    seen: Arc<Mutex<BTreeMap<String, Instant>>>,
    watching: tokio::task::JoinHandle<()>,
}

/// A runtime of Torch.
pub fn runtime(name: &str) -> Value {
    let pod = json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false, "containers": [{"name": "node", "image": HOLD,
            "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}});
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [
            {"name": "node", "template": {"metadata": {"labels": labels},
                "spec": {"backoffLimit": 0, "template": pod}}}]}}}})
}

/// A job of two nodes.
pub fn job(name: &str, runtime: &str) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": 2, "numProcPerNode": 8,
            "command": ["torchrun", "train.py"], "env": [{"name": "EPOCHS", "value": "3"}],
            "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}}})
}

// === impl Load ===

impl Load {
    fn names(self) -> impl Iterator<Item = String> {
        (0..self.jobs).map(|number| format!("job-{number}"))
    }

    /// Creates the runtime, and waits until jobs may use it.
    pub async fn begin(self, client: &Client, world: &World) -> anyhow::Result<()> {
        let kind =
            GroupVersionKind::gvk("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime");
        let resource = ApiResource::from_gvk_with_plural(&kind, "clustertrainingruntimes");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let own = world.own(RUNTIME);
        api.create(&PostParams::default(), &serde_json::from_value(runtime(&own))?).await?;
        let jobs = jobs(&world.client(), world.namespace());
        let probe: DynamicObject = serde_json::from_value(job("probe", &own))?;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        world
            .until("a webhook that knows the runtime", async || {
                Ok(match jobs.create(&dry, &probe).await {
                    Ok(_) => Seen::Yes(()),
                    Err(error) => Seen::NotYet(error.to_string()),
                })
            })
            .await
    }

    /// Creates all of them; when each was begun.
    pub async fn create(
        self,
        client: &Client,
        world: &World,
    ) -> anyhow::Result<BTreeMap<String, Instant>> {
        let (api, runtime) = (jobs(client, world.namespace()), world.own(RUNTIME));
        let create = async |name: String| {
            let object: DynamicObject = serde_json::from_value(job(&name, &runtime))?;
            let begun = Instant::now();
            api.create(&PostParams::default(), &object).await.with_context(|| name.clone())?;
            anyhow::Ok((name, begun))
        };
        futures::stream::iter(self.names()).map(create).buffered(AT_ONCE).try_collect().await
    }

    /// Changes all of them in a way that means nothing.
    pub async fn touch(self, client: &Client, namespace: &str) -> anyhow::Result<()> {
        let api = jobs(client, namespace);
        let note = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
        let touch = async |name: String| {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&note)).await.map(drop)
        };
        let touched = futures::stream::iter(self.names()).map(touch).buffer_unordered(AT_ONCE);
        Ok(touched.try_collect().await?)
    }
}

// === impl Arrivals ===

impl Arrivals {
    /// Looks from now on.
    pub fn watch(world: &World) -> Self {
        let seen = Arc::<Mutex<BTreeMap<String, Instant>>>::default();
        let stream = watcher(world.jobsets(), watcher::Config::default()).default_backoff();
        let mut stream = stream.applied_objects().boxed();
        let own = seen.clone();
        let watching = tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                if let Ok(set) = event {
                    own.lock().entry(set.name_any()).or_insert_with(Instant::now);
                }
            }
        });
        Self { seen, watching }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.seen.lock().len()
    }

    /// When the last came, and how long each took, sorted.
    pub fn spread(&self, begun: &BTreeMap<String, Instant>) -> (Option<Instant>, Vec<Duration>) {
        let seen = self.seen.lock();
        let took = |(name, at): (&String, &Instant)| Some(at.duration_since(*begun.get(name)?));
        let mut each: Vec<Duration> = seen.iter().filter_map(took).collect();
        each.sort();
        (seen.values().max().copied(), each)
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn jobs(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("trainer.kubeflow.org", "v1alpha1", "TrainJob");
    let resource = ApiResource::from_gvk_with_plural(&kind, "trainjobs");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// The store counts its changes.
pub async fn version(world: &World) -> anyhow::Result<u64> {
    let list = world.trainjobs().list(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.context("no version")?.parse()?)
}
