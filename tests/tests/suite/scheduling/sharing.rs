//! Pods that share a device: one reservation holds it, and all of them are told the one that it got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::Containers;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::{SCHEDULER, SET, node};
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

const NAMESPACE: &str = "kai-resource-reservation";
const GROUP: &str = "runai-gpu-group";
const DEVICE: &str = "run.ai/reserve_for_gpu_index";
/// Image of containers that say what they see.
const SAYS: &str = "test/says-its-devices";

/// What containers have in their environment, by pod.
type Said = Arc<Mutex<BTreeMap<String, BTreeMap<String, String>>>>;

fn containers(said: &Said) -> Containers {
    let said = said.clone();
    Containers::default().image(SAYS, move |context| {
        let said = said.clone();
        async move {
            let name = context.pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if let Ok(mut said) = said.lock() {
                said.insert(name, context.env.clone());
            }
            context.stop.cancelled().await;
            0
        }
    })
}

fn choices() -> Choices {
    let mut choices = Choices::default();
    choices.placement.reservation.image = HOLD.to_owned();
    choices.placement.reservation.command.clear();
    choices
}

fn sharing(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {SET: "sharing"}, "annotations": annotations},
        "spec": {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": SAYS}]}})
}

fn reservations(world: &World) -> Api<Pod> {
    Api::namespaced(world.client(), NAMESPACE)
}

/// Waits until there are so many reservation pods; returns them by group.
async fn reserved(world: &World, count: usize) -> Result<BTreeMap<String, Pod>> {
    world
        .until(&format!("{count} reservations"), async || {
            let mut pods = reservations(world).list(&ListParams::default()).await?.items;
            // Others of a lasting cluster are none of ours.
            pods.retain(|pod| node(pod).is_none_or(|node| node.starts_with(&world.own(""))));
            Ok(if pods.len() == count {
                let group = |pod: &Pod| pod.labels().get(GROUP).cloned().unwrap_or_default();
                Seen::Yes(pods.into_iter().map(|pod| (group(&pod), pod)).collect())
            } else {
                Seen::NotYet(format!("{} are there", pods.len()))
            })
        })
        .await
}

/// Waits until a pod's container runs; what it sees of its environment.
async fn says(world: &World, said: &Said, pod: &str) -> Result<BTreeMap<String, String>> {
    world
        .until(&format!("{pod} runs"), async || {
            let said = said.lock().ok().and_then(|said| said.get(pod).cloned());
            let pod = world.api::<Pod>().get(pod).await?;
            let state = serde_json::to_value(&pod.status)?.to_string();
            Ok(said.map_or(Seen::NotYet(state), Seen::Yes))
        })
        .await
}

async fn group_of(world: &World, pod: &str) -> Result<String> {
    let pod = world.api::<Pod>().get(pod).await?;
    pod.labels().get(GROUP).cloned().context("it has no label of its group")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_halves_share_one_device_a_third_gets_another_and_the_last_one_out_gives_it_back()
-> Result<()> {
    let said = Said::default();
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        // With the permissions of deploy/coordinator and no others.
        .strict(true)
        .agents()
        .containers(containers(&said))
        .choices(choices())
        .run(async |world| {
            world.prepare_sharing().await?;
            let mut devices = BTreeMap::new();
            for name in ["a", "b", "c"] {
                world.create_object(sharing(name, json!({"gpu-fraction": "0.5"}))).await?;
                let env = says(world, &said, name).await?;
                ensure!(env["GPU_PORTION"] == "0.50", "{env:?}");
                devices.insert(name, env["NVIDIA_VISIBLE_DEVICES"].clone());
            }
            ensure!(devices["a"] == devices["b"], "{devices:?}");
            ensure!(devices["a"] != devices["c"], "{devices:?}");
            let held = reserved(world, 2).await?;
            for name in ["a", "b", "c"] {
                let pod = held.get(&group_of(world, name).await?).context("no reservation")?;
                // What the kubelet gave it, what the agent told of it, and what the pod sees.
                let given: Vec<String> =
                    world.devices(pod).await?.into_values().flatten().collect();
                ensure!(given == [devices[name].clone()], "{name}: {given:?} {devices:?}");
                ensure!(pod.annotations().get(DEVICE) == Some(&devices[name]), "{pod:?}");
                ensure!(pod.labels()["app"] == "kai-resource-reservation", "{pod:?}");
            }
            // The maps that tell them go with their pods.
            let maps = world.api::<ConfigMap>().list(&ListParams::default()).await?.items;
            let maps: Vec<_> =
                maps.iter().filter(|map| map.name_any().contains("shared-gpu")).collect();
            ensure!(
                maps.len() == 6,
                "{:?}",
                maps.iter().map(|map| map.name_any()).collect::<Vec<_>>()
            );
            ensure!(maps.iter().all(|map| map.owner_references().len() == 1), "{maps:?}");
            let first = group_of(world, "a").await?;
            for (gone, left) in [("c", 1), ("a", 1), ("b", 0)] {
                world.api::<Pod>().delete(gone, &DeleteParams::default()).await?;
                let held = reserved(world, left).await?;
                ensure!(held.keys().all(|group| *group == first), "{held:?}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_every_scheduler_name_share_a_device() -> Result<()> {
    let said = Said::default();
    let names = ["muster-scheduler", "kai-scheduler"].map(str::to_owned);
    let mut choices = choices();
    choices.placement.cluster.scheduler_names = names.to_vec();
    choices.placement.grouping.scheduler_names = names.to_vec();
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .strict(true)
        .agents()
        .containers(containers(&said))
        .choices(choices)
        .run(async |world| {
            world.prepare_sharing().await?;
            let mut devices = BTreeSet::new();
            for name in &names {
                let mut pod = sharing(name, json!({"gpu-fraction": "0.5"}));
                pod["spec"]["schedulerName"] = name.as_str().into();
                world.create_object(pod).await?;
                let env = says(world, &said, name).await?;
                ensure!(env["GPU_PORTION"] == "0.50", "{env:?}");
                devices.insert(env["NVIDIA_VISIBLE_DEVICES"].clone());
            }
            ensure!(devices.len() == 1, "{devices:?}");
            let mut wrong = sharing("wrong", json!({"gpu-fraction": "2"}));
            wrong["spec"]["schedulerName"] = "kai-scheduler".into();
            let refused = world.create_object(wrong).await;
            ensure!(format!("{refused:?}").contains("is no fraction"), "{refused:?}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_takes_over_what_is_shared() -> Result<()> {
    let said = Said::default();
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .agents()
        .coordinators(2)
        .containers(containers(&said))
        .choices(choices())
        .run(async |world| {
            world.prepare_sharing().await?;
            world.create_object(sharing("a", json!({"gpu-memory": "40000"}))).await?;
            let before = says(world, &said, "a").await?;
            let leader = world.coordinators()?.leader().map(|running| running.number);
            world.coordinators_mut()?.kill(leader.context("nobody leads")?)?;
            world
                .until("another leader", async || {
                    Ok(match world.coordinators()?.leader() {
                        Some(_) => Seen::Yes(()),
                        None => Seen::NotYet("nobody leads".to_owned()),
                    })
                })
                .await?;
            let both = json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"});
            world.create_object(sharing("b", both)).await?;
            let after = says(world, &said, "b").await?;
            let seen: BTreeSet<&str> = after["NVIDIA_VISIBLE_DEVICES"].split(',').collect();
            ensure!(seen.len() == 2, "{after:?}");
            ensure!(seen.contains(&*before["NVIDIA_VISIBLE_DEVICES"]), "{before:?} {after:?}");
            reserved(world, 2).await?;
            for name in ["a", "b"] {
                world.api::<Pod>().delete(name, &DeleteParams::default()).await?;
            }
            reserved(world, 0).await.map(drop)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_a_device_that_nothing_holds_any_more_is_deleted_and_an_event_says_why()
-> Result<()> {
    let said = Said::default();
    let mut choices = choices();
    choices.placement.cluster.reservation.grace = jiff::SignedDuration::ZERO;
    World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        // With the permissions of deploy/coordinator and no others.
        .strict(true)
        .agents()
        .containers(containers(&said))
        .choices(choices)
        .run(async |world| {
            world.prepare_sharing().await?;
            world.create_object(sharing("a", json!({"gpu-fraction": "0.5"}))).await?;
            says(world, &said, "a").await?;
            let uid = world.api::<Pod>().get("a").await?.uid().context("it has no uid")?;
            let held = reserved(world, 1).await?.into_values().next().context("none")?;
            let at_once = DeleteParams::default().grace_period(0);
            reservations(world).delete(&held.name_any(), &at_once).await?;
            world
                .until("the pod is gone", async || {
                    Ok(match world.api::<Pod>().get_opt("a").await? {
                        None => Seen::Yes(()),
                        Some(_) => Seen::NotYet("it is there".to_owned()),
                    })
                })
                .await?;
            let events = world.api::<Event>();
            let told = ListParams::default().fields("reason=DeviceNotHeld");
            let event = world
                .until("an event", async || {
                    let found = events.list(&told).await?.items;
                    Ok(found.into_iter().next().map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
                })
                .await?;
            ensure!(event.involved_object.uid == Some(uid), "{event:?}");
            ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
            let message = event.message.unwrap_or_default();
            ensure!(message.contains("reservation pod"), "{message}");
            Ok(())
        })
        .await
}
