//! A cluster whose coordinators are all gone: what runs ends, agents annotate, and what is deleted goes.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use muster_pipeline::in_use::HoldRule;
use muster_proto::annotation::KEY;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::{SCHEDULER, SET, waiting_pod};
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::workload::NPU;

const JOB: &str = "gang";
const GOING: &str = "going";
/// Somebody's finalizer: what carries it is there until it is taken away.
const FINALIZER: &str = "test.muster.dev/kept";

fn job() -> Value {
    let container = json!({"name": "main", "image": HOLD,
        "resources": {"limits": {NPU: "2"}, "requests": {NPU: "2"}}});
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": JOB, "annotations": {"kai.scheduler/batch-min-member": "2"}},
        "spec": {"parallelism": 2, "completions": 2, "template": {
            "metadata": {"labels": {SET: JOB}},
            "spec": {"schedulerName": SCHEDULER, "restartPolicy": "Never", "containers": [container]}}}})
}

async fn change<K>(api: &Api<K>, name: &str, change: Value) -> kube::Result<K>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await
}

/// Waits until the pod has the agent's annotation.
async fn annotated(world: &World, pod: &str) -> Result<()> {
    world
        .until("the agent's annotation", async || {
            let pod = world.api::<Pod>().get(pod).await?;
            Ok(match pod.annotations().get(KEY) {
                Some(_) => Seen::Yes(()),
                None => Seen::NotYet(format!("{:?}", pod.annotations())),
            })
        })
        .await
}

/// Deletes an object that has a finalizer, takes the finalizer away, and waits until it is gone.
async fn goes<K>(world: &World, api: Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await?;
    change(&api, name, json!({"metadata": {"finalizers": null}})).await?;
    world
        .until(&format!("{name} is gone"), async || {
            Ok(match api.get_opt(name).await? {
                None => Seen::Yes(()),
                Some(_) => Seen::NotYet("it is there".to_owned()),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_coordinator_jobs_end_agents_annotate_and_deletions_pass() -> Result<()> {
    // A runtime that a coordinator holds could not go with the world.
    let choices = Choices { runtime_holds: HoldRule::Off, ..Choices::default() };
    let plan = World::new().nodes(1).agents().coordinators(2).strict(true).choices(choices);
    plan.run(async |world| {
        world.queue("team", "", -1.0, -1.0).await?;
        world.pod_group(GOING, "team", 1, json!({})).await?;
        let mut going = waiting_pod(GOING, 0, GOING, NPU, 1);
        going["metadata"]["finalizers"] = json!([FINALIZER]);
        world.create_object(going).await?;
        world.placed(GOING, 1).await?;
        let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
            "metadata": {"name": "plain",
                "labels": {"trainer.kubeflow.org/framework": "torch"}},
            "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [{"name": "node",
                "template": {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                    "spec": {"template": {"spec": {"containers": [{"name": "node", "image": HOLD}]}}}}}]}}}});
        world.create_object(runtime).await?;
        world.train(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": GOING, "finalizers": [FINALIZER]},
            "spec": {"suspend": true,
                "runtimeRef": {"name": "plain", "kind": "TrainingRuntime"}}})).await?;
        world.create_object(job()).await?;
        world.pods_in(&format!("{SET}={JOB}"), 2, "Running").await?;
        let pods = world.pods_of(JOB).await?;
        let (one, group) = pods
            .iter()
            .find_map(|pod| Some((pod.name_any(), pod.annotations().get("pod-group-name")?.clone())))
            .context("no pod has a group")?;
        annotated(world, &one).await?;

        let coordinators = world.coordinators_mut()?;
        let numbers: Vec<usize> = coordinators.iter().map(|running| running.number).collect();
        for number in numbers {
            coordinators.kill(number)?;
        }
        let pods = world.api::<Pod>();
        // What would be judged is still not let past.
        let moved = json!({"metadata": {"annotations": {"pod-group-name": format!("{group}-other")}}});
        match change(&pods, &one, moved).await {
            Ok(_) => bail!("a pod changed its group while nobody could judge that"),
            Err(error) => ensure!(error.to_string().contains("webhook"), "{error}"),
        }
        change(&pods, &one, json!({"metadata": {"annotations": {KEY: null}}})).await?;
        annotated(world, &one).await?;
        goes(world, pods, &format!("{GOING}-0")).await?;
        goes(world, world.trainjobs(), GOING).await?;
        world.gate().open();
        let jobs: Api<Job> = world.api();
        world
            .until("the Job completes", async || {
                let status = jobs.get(JOB).await?.status.unwrap_or_default();
                Ok(match status.completion_time {
                    Some(_) => Seen::Yes(()),
                    None => Seen::NotYet(format!("{status:?}")),
                })
            })
            .await
    })
    .await
}
