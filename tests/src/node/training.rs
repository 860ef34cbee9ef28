//! A TrainJob in real containers.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, LogParams, PostParams};
use serde_json::{Value, json};

use super::Stage;
use super::pods::NPU;
use crate::world::Seen;
use crate::world::jobset::selector;

const NAME: &str = "real";

impl Stage<'_> {
    /// Two nodes of a torch job with two NPUs each, and what their processes say.
    pub async fn trains(&self) -> anyhow::Result<()> {
        let container = json!({"name": "node", "image": self.args.busybox_image,
            "command": ["sh", "-c", "echo rank $PET_NODE_RANK of $PET_NNODES on $ASCEND_VISIBLE_DEVICES"]});
        let node = json!({"name": "node",
            "template": {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never",
                    "automountServiceAccountToken": false, "containers": [container]}}}}});
        let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
            "metadata": {"name": NAME},
            "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}});
        let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": NAME},
            "spec": {"runtimeRef": {"name": NAME, "kind": "TrainingRuntime"},
                "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {NPU: "2"}}}}});
        create(&self.world.runtimes(), runtime).await?;
        // The coordinators hear of the runtime a moment later.
        self.world
            .until("a TrainJob that is taken", async || {
                create(&self.world.trainjobs(), job.clone()).await?;
                Ok(Seen::Yes(()))
            })
            .await?;
        self.world.trainjob_is(NAME, "Complete", "True").await?;
        let mut ranks = BTreeSet::new();
        let mut devices = BTreeSet::new();
        for pod in self.world.pods(&selector(NAME)).await? {
            let pods: Api<Pod> = self.pods();
            let said = pods.logs(&pod.name_any(), &LogParams::default()).await?;
            let (rank, held) = said.trim().split_once(" on ").context(said.clone())?;
            ranks.insert(rank.to_owned());
            devices.extend(held.split(',').map(str::to_owned));
        }
        let wanted = ["rank 0 of 2", "rank 1 of 2"].map(str::to_owned);
        ensure!(ranks == BTreeSet::from(wanted), "{ranks:?}");
        ensure!(devices.len() == 4, "four devices, none twice: {devices:?}");
        self.world.trainjobs().delete(NAME, &DeleteParams::default()).await?;
        self.world
            .until("the end of its pods", async || {
                Ok(match self.world.pods(&selector(NAME)).await?.len() {
                    0 => Seen::Yes(()),
                    left => Seen::NotYet(format!("{left} are there")),
                })
            })
            .await
    }
}

async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
