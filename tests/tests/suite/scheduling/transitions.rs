//! What pods, groups and owners are told when pods get a node, wait for others, or must go.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use muster_sandbox::kubelet::Containers;
use muster_scheduling::Eviction;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::{SCHEDULER, SET, waiting_pod};
use serde_json::{Value, json};

use crate::suite::workload::NPU;

/// Image of a container that does not end well when it is told to go.
const ENDS_BADLY: &str = "test/ends-badly";
/// Keeps a pod until the test has seen it.
const KEPT: &str = "test.muster.dev/kept";

fn containers() -> Containers {
    Containers::default().image(ENDS_BADLY, |context| async move {
        context.stop.cancelled().await;
        143
    })
}

/// Events of an object for a reason.
async fn events(world: &World, kind: &str, name: &str, reason: &str) -> Result<Vec<Event>> {
    let all = world.api::<Event>().list(&ListParams::default()).await?.items;
    let of = |event: &Event| {
        let about = &event.involved_object;
        about.kind.as_deref() == Some(kind)
            && about.name.as_deref() == Some(name)
            && event.reason.as_deref() == Some(reason)
    };
    Ok(all.into_iter().filter(of).collect())
}

/// Waits for the one event of an object for a reason.
async fn event(world: &World, kind: &str, name: &str, reason: &str) -> Result<Event> {
    let what = format!("{reason} on {kind} {name}");
    let found = world.until(&what, async || {
        let mut found = events(world, kind, name, reason).await?;
        Ok(match found.len() {
            0 => Seen::NotYet("no event".to_owned()),
            _ => Seen::Yes(found.remove(0)),
        })
    });
    found.await
}

fn says(event: &Event, words: &[&str]) -> Result<()> {
    let message = event.message.as_deref().unwrap_or_default();
    for word in words {
        ensure!(message.contains(word), "{word} is not in {message}");
    }
    Ok(())
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "low", "labels": {"kai.scheduler/queue": "team"}},
        "spec": {"backoffLimit": 0,
            "podFailurePolicy": {"rules": [{"action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "template": {
                "metadata": {"labels": {SET: "low"}, "finalizers": [KEPT]},
                "spec": {"schedulerName": SCHEDULER, "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": ENDS_BADLY,
                        "resources": {"limits": {NPU: "8"}, "requests": {NPU: "8"}}}]}}}})
}

/// A Job whose pod is preempted: what is told to whom, and that it has not failed.
async fn preempted(world: &World) -> Result<()> {
    world.prepare_sharing().await?;
    world.queue("team", "", -1.0, -1.0).await?;
    let mut job = job();
    job["metadata"]["labels"]["kai.scheduler/queue"] = world.own("team").into();
    world.create_object(job).await?;
    let pod = world.placed("low", 1).await?.remove(0);
    let (name, node) = (pod.name_any(), pod.spec.clone().and_then(|spec| spec.node_name));
    let told = event(world, "Pod", &name, "Scheduled").await?;
    ensure!(told.type_.as_deref() == Some("Normal"), "{told:?}");
    says(&told, &["Successfully assigned", &name, &node.context("no node")?])?;
    let group = pod.annotations().get("pod-group-name").context("no group")?.clone();

    let high = json!({"priorityClassName": "build"});
    world.pod_group("high", "team", 1, high).await?;
    world.create_object(waiting_pod("high", 0, "high", NPU, 8)).await?;
    let by = format!("{}/high", world.namespace());
    let said = world
        .until("the pod says that it goes", async || {
            let pod = world.api::<Pod>().get(&name).await?;
            let all = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            let target = all.into_iter().find(|one| one.type_ == "DisruptionTarget");
            let ours = |reason: &str| reason == "PreemptionByScheduler";
            Ok(match target {
                Some(one) if one.reason.as_deref().is_some_and(ours) => Seen::Yes(one),
                other => Seen::NotYet(format!("{other:?}")),
            })
        })
        .await?;
    ensure!(said.status == "True" && said.last_transition_time.is_some(), "{said:?}");
    ensure!(said.message.as_deref().is_some_and(|text| text.contains(&by)), "{said:?}");
    for (kind, of) in [("Pod", &name), ("Job", &"low".to_owned())] {
        let told = event(world, kind, of, "Preempted").await?;
        says(&told, &[&name, &by, "priority 50 gives way to 100"])?;
    }
    let told = event(world, "PodGroup", &group, "Evict").await?;
    says(&told, &[&name, &by])?;
    ensure!(told.type_.as_deref() == Some("Normal"), "{told:?}");
    let details = told.annotations();
    ensure!(details.get("evictor-action-type").is_some_and(|one| one == "preempt"), "{details:?}");
    ensure!(details.get("evictor-pod-group-name").is_some_and(|one| one == "high"), "{details:?}");
    ensure!(details.get("num-evicted-pods").is_some_and(|one| one == "1"), "{details:?}");

    let seen = json!({"metadata": {"finalizers": null}});
    let seen = Patch::Merge(&seen);
    world.api::<Pod>().patch(&name, &PatchParams::default(), &seen).await?;
    world.placed("high", 1).await?;
    // The Job's pod takes another try; nothing has failed.
    world
        .until("another pod of the Job", async || {
            let pods = world.pods_of("low").await?;
            let other = pods.iter().any(|pod| pod.name_any() != name);
            let job = world.api::<Job>().get("low").await?;
            let state = format!("{:?}", job.status);
            ensure!(!state.contains("Failed\""), "{state}");
            Ok(if other { Seen::Yes(()) } else { Seen::NotYet(state) })
        })
        .await?;
    // Each was told once.
    for (kind, of, reason) in
        [("Pod", &*name, "Scheduled"), ("Job", "low", "Preempted"), ("PodGroup", &group, "Evict")]
    {
        let count = events(world, kind, of, reason).await?.len();
        ensure!(count == 1, "{reason} of {kind}: {count}");
    }
    for pod in world.pods_of("low").await? {
        world.api::<Pod>().patch(&pod.name_any(), &PatchParams::default(), &seen).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preempted_pod_its_group_and_its_job_are_told_and_the_job_has_not_failed() -> Result<()> {
    World::new()
        .nodes(1)
        .strict(true)
        .coordinators(1)
        .containers(containers())
        .run(async |world| preempted(world).await)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_where_pods_are_deleted() -> Result<()> {
    let mut choices = Choices::default();
    choices.placement.eviction = Eviction::Delete;
    let plan = World::new().nodes(1).strict(true).coordinators(1).choices(choices);
    plan.containers(containers()).run(async |world| preempted(world).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_lacks_pods_is_not_ready_and_its_pods_wait_since_then() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("few", "team", 3, json!({})).await?;
            world.create_object(waiting_pod("few", 0, "few", NPU, 1)).await?;
            let told = event(world, "PodGroup", "few", "NotReady").await?;
            ensure!(told.type_.as_deref() == Some("Normal"), "{told:?}");
            says(&told, &[
                "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated",
            ])?;
            let waits = world
                .until("the pod says why", async || {
                    let status = world.api::<Pod>().get("few-0").await?.status;
                    let all = status.and_then(|status| status.conditions).unwrap_or_default();
                    let found = all.into_iter().find(|one| one.type_ == "PodScheduled");
                    Ok(found.map_or(Seen::NotYet("nothing".to_owned()), Seen::Yes))
                })
                .await?;
            ensure!(waits.status == "False", "{waits:?}");
            ensure!(waits.last_transition_time.is_some(), "{waits:?}");
            for number in 1..3 {
                world.create_object(waiting_pod("few", number, "few", NPU, 1)).await?;
            }
            world.placed("few", 3).await?;
            ensure!(events(world, "PodGroup", "few", "NotReady").await?.len() == 1, "said twice");
            Ok(())
        })
        .await
}

/// Creates a PodGroup; what the API server warns of.
async fn warned(world: &World, group: &Value) -> Result<String> {
    let path =
        format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", world.namespace());
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(group)?))?;
    let answer = world.client().send(request).await?;
    ensure!(answer.status() == 201, "{answer:?}");
    let warnings = answer.headers().get_all("warning").iter();
    let warnings: Vec<&str> = warnings.filter_map(|one| one.to_str().ok()).collect();
    Ok(warnings.join(" "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_class_that_does_not_exist_is_said_to_whoever_names_it() -> Result<()> {
    World::new()
        .nodes(1)
        .strict(true)
        .coordinators(1)
        .run(async |world| {
            world.prepare_sharing().await?;
            world.queue("team", "", -1.0, -1.0).await?;
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": "odd", "namespace": world.namespace()},
                "spec": {"queue": world.own("team"), "minMember": 1, "priorityClassName": "nobody"}});
            let warning = warned(world, &group).await?;
            ensure!(warning.contains("there is no PriorityClass nobody"), "{warning}");
            world.create_object(waiting_pod("odd", 0, "odd", NPU, 1)).await?;
            world.placed("odd", 1).await?;
            let told = event(world, "PodGroup", "odd", "PartlyIgnored").await?;
            says(&told, &["priority class nobody does not exist"])?;
            let condition = world
                .until("the group says it", async || {
                    let group = world.object(&group).await?;
                    let all = group.pointer("/status/conditions").and_then(Value::as_array);
                    let found = all.into_iter().flatten().find(|one| one["type"] == "SpecValid");
                    Ok(found.map_or(Seen::NotYet("nothing".to_owned()), |one| Seen::Yes(one.clone())))
                })
                .await?;
            ensure!(condition["status"] == "False", "{condition}");
            ensure!(condition["reason"] == "PartlyIgnored", "{condition}");
            let mut job = job();
            job["metadata"]["labels"]["priorityClassName"] = "nobody".into();
            job["metadata"]["labels"]["kai.scheduler/queue"] = world.own("team").into();
            job["spec"]["template"]["metadata"]["finalizers"] = json!([]);
            world.create_object(job).await?;
            let told = event(world, "Job", "low", "PodGrouperWarning").await?;
            says(&told, &["priorityClassName", "there is no PriorityClass nobody", "train"])
        })
        .await
}
