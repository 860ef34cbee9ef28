//! TrainJobs and their runtimes, as tests see them.

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::serving::condition_of;
use super::{Place, Seen, World};

const GROUP: &str = "trainer.kubeflow.org";

impl World {
    /// The TrainJobs of the namespace.
    pub fn trainjobs(&self) -> Api<DynamicObject> {
        let resource = resource("TrainJob", "trainjobs");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// The runtimes of the namespace.
    pub fn runtimes(&self) -> Api<DynamicObject> {
        let resource = resource("TrainingRuntime", "trainingruntimes");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// What something without a namespace is called that is created under this name: others use a real cluster too.
    pub fn own(&self, name: &str) -> String {
        match &self.place {
            Place::Sandbox(_) => name.to_owned(),
            Place::Cluster(cluster) => format!("{}-{name}", cluster.mark()),
        }
    }

    /// What the first container of a pod has said. A real API server would ask its kubelet, and ours serve no logs over HTTP:
    /// they are asked themselves.
    pub async fn said(&self, pod: &Pod) -> anyhow::Result<String> {
        let name = pod.name_any();
        if let Place::Sandbox(_) = &self.place {
            return Ok(self.api::<Pod>().logs(&name, &LogParams::default()).await?);
        }
        let container = pod.spec.iter().flat_map(|spec| &spec.containers).next();
        let container = &container.context("a pod without containers")?.name;
        let kubelets = self.kubelets().context("a world without nodes")?;
        let lines = kubelets.logs().get(self.namespace(), &name, container);
        Ok(lines.iter().map(|line| format!("{line}\n")).collect())
    }

    /// The runtimes of all namespaces.
    pub fn cluster_runtimes(&self) -> Api<DynamicObject> {
        shared(self.client())
    }

    /// One TrainJob as it is now.
    pub async fn trainjob(&self, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.trainjobs().get(name).await?)?)
    }

    /// Creates a TrainJob as soon as the coordinators know its runtime.
    pub async fn train(&self, job: Value) -> anyhow::Result<Value> {
        self.until("a TrainJob that is taken", async || {
            Ok(match self.create_object(job.clone()).await {
                Ok(made) => Seen::Yes(made),
                Err(error) => {
                    let said = format!("{error:#}");
                    anyhow::ensure!(said.contains("must be created before"), "{said}");
                    Seen::NotYet(said)
                }
            })
        })
        .await
    }

    /// Whether a condition of a TrainJob has this status; its reason and message.
    pub async fn look_at_trainjob(
        &self,
        name: &str,
        condition: &str,
        status: &str,
    ) -> anyhow::Result<Seen<(String, String)>> {
        let job = self.trainjob(name).await?;
        Ok(match condition_of(&job, condition) {
            Some((now, reason, message)) if now == status => Seen::Yes((reason, message)),
            _ => Seen::NotYet(job["status"].to_string()),
        })
    }

    /// Waits until it is so.
    pub async fn trainjob_is(
        &self,
        name: &str,
        condition: &str,
        status: &str,
    ) -> anyhow::Result<(String, String)> {
        let what = format!("{condition}={status} of TrainJob {name}");
        self.until(&what, async || self.look_at_trainjob(name, condition, status).await).await
    }
}

fn shared(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &resource("ClusterTrainingRuntime", "clustertrainingruntimes"))
}

/// Takes away the runtimes of a world that has ended: nobody is left who would let them go.
pub(super) async fn clear(client: Client, mark: &str) -> anyhow::Result<()> {
    let api = shared(client);
    let all = match api.list(&ListParams::default()).await {
        // The kind was never there.
        Err(kube::Error::Api(refused)) if refused.code == 404 => return Ok(()),
        all => all?.items,
    };
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for name in all.iter().map(ResourceExt::name_any).filter(|name| name.starts_with(mark)) {
        api.delete(&name, &DeleteParams::default()).await?;
        match api.patch(&name, &PatchParams::default(), &free).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            other => drop(other?),
        }
    }
    Ok(())
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind), plural)
}
