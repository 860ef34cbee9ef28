//! TrainJobs, from the object to processes that see their environment.

mod faults;
mod finalizers;
pub mod groups;
mod hands;
mod once;
mod plugins;
mod refusals;
mod reports;
mod resync;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::names;
use muster_tests::World;
use muster_tests::world::jobset::selector;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::modelserving::read;
use super::ranktable::TEMPLATE;
use super::workload::{GPU, NPU};

/// A pod whose container runs until the gate opens.
pub fn held() -> Value {
    json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "node", "image": HOLD}]}})
}

/// A pod whose container runs a script on this machine.
fn script(text: &str) -> Value {
    json!({"metadata": {"annotations": {names::EXEC: "true"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "node", "image": "trainer:1", "command": ["/bin/sh", "-euc", text]}]}})
}

/// One step of a runtime.
fn step(name: &str, trains: bool, pod: Value) -> Value {
    let labels = match trains {
        true => json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}),
        false => json!({}),
    };
    json!({"name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": pod}}})
}

/// A runtime of all namespaces.
fn runtime(name: &str, policy: Value, jobs: Vec<Value>) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}})
}

/// A runtime of Torch with these pods.
pub fn torch(name: &str, pod: Value) -> Value {
    runtime(name, json!({"numNodes": 1, "torch": {}}), vec![step("node", true, pod)])
}

/// A runtime of OpenMPI: a launcher that begins when its nodes are there, and decides when all is done.
pub fn mpi(name: &str, launcher: Value, node: Value) -> Value {
    let policy = json!({"numNodes": 1, "mpi": {"mpiImplementation": "OpenMPI",
        "numProcPerNode": 8, "sshAuthMountPath": "/root/.ssh", "runLauncherAsNode": false}});
    let mut launcher = step("launcher", true, launcher);
    launcher["dependsOn"] = json!([{"name": "node", "status": "Ready"}]);
    let mut runtime = runtime(name, policy, vec![step("node", false, node), launcher]);
    runtime["spec"]["template"]["spec"]["successPolicy"] =
        json!({"operator": "All", "targetReplicatedJobs": ["launcher"]});
    runtime
}

/// A job of so many nodes.
pub fn job(name: &str, runtime: &str, nodes: u32) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes}}})
}

/// Changes some fields of a TrainJob.
pub async fn change(world: &World, name: &str, change: Value) -> Result<()> {
    world.trainjobs().patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Waits for the JobSet of a job.
pub async fn workload(world: &World, name: &str) -> Result<Value> {
    world
        .until(&format!("JobSet {name}"), async || {
            let found = world.jobsets().get_opt(name).await?;
            Ok(match found {
                Some(found) => Seen::Yes(serde_json::to_value(found)?),
                None => Seen::NotYet(world.trainjob(name).await?["status"].to_string()),
            })
        })
        .await
}

/// Waits for an event about a job; its note.
pub async fn event(world: &World, job: &str, reason: &str) -> Result<String> {
    let fields = format!("involvedObject.name={job}");
    world
        .until(&format!("event {reason} of {job}"), async || {
            let all = world.api::<Event>().list(&ListParams::default().fields(&fields)).await?;
            let found = all.items.into_iter().find(|one| one.reason.as_deref() == Some(reason));
            Ok(found.map_or(Seen::NotYet("none".to_owned()), |found| {
                Seen::Yes(found.message.unwrap_or_default())
            }))
        })
        .await
}

async fn logs(world: &World, pods: &[Pod]) -> Result<String> {
    let mut all = String::new();
    for pod in pods {
        let log = world.said(pod).await?;
        // The kubelet's own last word is not theirs.
        log.lines().filter(|line| *line != "exit 0").for_each(|line| all += &format!("{line}\n"));
    }
    Ok(all)
}

/// Waits until a job is complete; what its containers said, if it fails.
async fn complete(world: &World, name: &str) -> Result<()> {
    let ended = world.trainjob_is(name, "Complete", "True").await;
    if let Err(error) = ended {
        let pods = world.pods(&selector(name)).await?;
        return Err(error.context(logs(world, &pods).await?));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torch_job_of_two_nodes_with_eight_devices_completes_and_its_processes_find_each_other()
-> Result<()> {
    World::new()
        .nodes_of(Profile::NvidiaH1008, 2)
        .processes()
        .coordinators(1)
        .run(async |world| {
            let checks = "test $PET_NNODES = 2; test $PET_NPROC_PER_NODE = 8; \
                test $PET_MASTER_ADDR = torch-node-0-0.torch; test $PET_MASTER_PORT = 29500; \
                test $PET_NODE_RANK = $JOB_COMPLETION_INDEX; \
                echo rank $PET_NODE_RANK of $PET_NNODES";
            world.create_object(torch("torch-distributed", script(checks))).await?;
            let mut job = job("torch", "torch-distributed", 2);
            job["spec"]["trainer"]["resourcesPerNode"] = json!({"limits": {GPU: "8"}});
            job["spec"]["trainer"]["numProcPerNode"] = json!(8);
            world.train(job).await?;
            complete(world, "torch").await?;
            let pods = world.pods(&selector("torch")).await?;
            let said = logs(world, &pods).await?;
            let mut said: Vec<&str> = said.lines().collect();
            said.sort_unstable();
            assert_eq!(said, ["rank 0 of 2", "rank 1 of 2"]);
            let job = world.trainjob("torch").await?;
            assert_eq!(
                job["status"]["jobsStatus"],
                json!([{"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}])
            );
            let set = world.jobset("torch").await?;
            assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
            let owners = set["metadata"]["managedFields"].to_string();
            ensure!(owners.contains("\"manager\":\"trainer\""), "{owners}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_mpi_job_completes_and_its_launcher_reads_the_file_of_its_hosts() -> Result<()> {
    World::new()
        .nodes_of(Profile::NvidiaH1008, 3)
        .processes()
        .coordinators(1)
        .run(async |world| {
            let launcher = "cat $SANDBOX_ROOTFS$OMPI_MCA_orte_default_hostfile; \
                test $OMPI_MCA_orte_set_default_slots = 8; \
                test -s $SANDBOX_ROOTFS/root/.ssh/id_rsa; echo launched";
            let node = "test -s $SANDBOX_ROOTFS/root/.ssh/authorized_keys; exec sleep 600";
            world.create_object(mpi("mpi-distributed", script(launcher), script(node))).await?;
            world.train(job("mpi", "mpi-distributed", 2)).await?;
            complete(world, "mpi").await?;
            let pods = world.pods(&selector("mpi")).await?;
            let is = |pod: &&Pod| pod.name_any().contains("-launcher-");
            let launcher: Vec<Pod> = pods.iter().filter(is).cloned().collect();
            assert_eq!(
                logs(world, &launcher).await?.lines().collect::<Vec<_>>(),
                ["mpi-node-0-0.mpi slots=8", "mpi-node-0-1.mpi slots=8", "launched"]
            );
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_asks_for_a_rank_table_gets_one() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            let mut pod = held();
            pod["spec"]["containers"][0]["resources"] = json!({"limits": {NPU: "8"}});
            world.create_object(torch("ascend", pod)).await?;
            let mut job = job("ranked", "ascend", 2);
            job["metadata"]["annotations"] = json!({"muster.dev/ranktable-template": TEMPLATE});
            world.train(job).await?;
            assert_eq!(read(world, "ranked", 2).await?, 16);
            for pod in world.pods(&selector("ranked")).await? {
                let env = serde_json::to_value(&pod.spec.context("no spec")?.containers[0].env)?;
                let file = json!({"name": "RANK_TABLE_FILE", "value": "/etc/ascend/ranktable/ranktable.json"});
                ensure!(env.as_array().is_some_and(|env| env.contains(&file)), "{env}");
            }
            world.gate().open();
            complete(world, "ranked").await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_job_makes_its_objects_and_no_pods_until_it_is_resumed() -> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let mut suspended = job("held", "plain", 2);
            suspended["spec"]["suspend"] = json!(true);
            world.train(suspended).await?;
            let said = world.trainjob_is("held", "Suspended", "True").await?;
            assert_eq!(said, ("Suspended".to_owned(), "TrainJob is suspended".to_owned()));
            assert_eq!(workload(world, "held").await?["spec"]["suspend"], true);
            ensure!(world.pods(&selector("held")).await?.is_empty());
            change(world, "held", json!({"spec": {"suspend": false}})).await?;
            let said = world.trainjob_is("held", "Suspended", "False").await?;
            assert_eq!(said, ("Resumed".to_owned(), "TrainJob is resumed".to_owned()));
            world.pods_in(&selector("held"), 2, "Running").await?;
            change(world, "held", json!({"spec": {"suspend": true}})).await?;
            world.trainjob_is("held", "Suspended", "True").await?;
            world
                .until("no pods", async || {
                    let pods = world.pods(&selector("held")).await?;
                    let none = pods.is_empty();
                    Ok(if none { Seen::Yes(()) } else { Seen::NotYet(format!("{}", pods.len())) })
                })
                .await?;
            change(world, "held", json!({"spec": {"suspend": false}})).await?;
            world.pods_in(&selector("held"), 2, "Running").await?;
            world.gate().open();
            complete(world, "held").await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_time_is_over_fails_and_nothing_of_it_runs_any_more() -> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let mut late = job("late", "plain", 1);
            late["spec"]["activeDeadlineSeconds"] = json!(2);
            world.train(late).await?;
            world.pods_in(&selector("late"), 1, "Running").await?;
            let said = world.trainjob_is("late", "Failed", "True").await?;
            let message = "TrainJob exceeded its active deadline";
            assert_eq!(said, ("DeadlineExceeded".to_owned(), message.to_owned()));
            world
                .until("no JobSet", async || {
                    let found = world.jobsets().get_opt("late").await?;
                    Ok(found.map_or(Seen::Yes(()), |_| Seen::NotYet("it is there".to_owned())))
                })
                .await?;
            let job = world.trainjob("late").await?;
            ensure!(!job["status"]["jobsStatus"].is_null(), "{}", job["status"]);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_job_is_left_alone() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let mut foreign = job("foreign", "plain", 1);
            foreign["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
            world.train(foreign).await?;
            // One that is ours comes later, and is done.
            world.train(job("ours", "plain", 1)).await?;
            workload(world, "ours").await?;
            ensure!(world.jobsets().get_opt("foreign").await?.is_none());
            ensure!(world.api::<ConfigMap>().get_opt("foreign-runtime-snapshot").await?.is_none());
            ensure!(world.trainjob("foreign").await?["status"].is_null());
            Ok(())
        })
        .await
}

/// The uids of what is made once for an MPI job.
pub async fn made(world: &World, name: &str) -> Result<Vec<String>> {
    let maps = world.api::<ConfigMap>();
    let set = world.jobset(name).await?;
    Ok(vec![
        maps.get(&format!("{name}-runtime-snapshot")).await?.uid().unwrap_or_default(),
        maps.get(&format!("{name}-mpi-hostfile")).await?.uid().unwrap_or_default(),
        world.api::<Secret>().get(&format!("{name}-mpi-ssh-auth")).await?.uid().unwrap_or_default(),
        set["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
    ])
}
