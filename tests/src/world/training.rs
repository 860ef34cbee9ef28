//! TrainJobs and their runtimes, as tests see them.

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::serving::condition_of;
use super::{Seen, World};

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

    /// The runtimes of all namespaces.
    pub fn cluster_runtimes(&self) -> Api<DynamicObject> {
        let resource = resource("ClusterTrainingRuntime", "clustertrainingruntimes");
        Api::all_with(self.client(), &resource)
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

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind), plural)
}
