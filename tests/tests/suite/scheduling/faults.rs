//! Devices that go bad: out of the next cycle, and what becomes of the gangs that stand on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_scheduler_state::fault::Care;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::{SCHEDULER, SET, node, waiting_pod};
use muster_tests::world::{Plan, Seen};
use serde_json::{Value, json};

use crate::suite::ranktable::{TEMPLATE, delivered, generation, marked, ranks, table};
use crate::suite::workload::{NPU, template};

const RESTART: &str = "muster.dev/fault-restart";

/// Nodes of eight NPUs; faults count at once.
fn plan(nodes: u32, cool_down: SignedDuration) -> Plan {
    let mut choices = Choices::default();
    choices.placement.cluster.faults = Care {
        grace: SignedDuration::ZERO,
        node_grace: SignedDuration::ZERO,
        cool_down,
        ..Care::default()
    };
    World::new().nodes(nodes).choices(choices).agents()
}

/// A job of two pods that take a node each, as a gang and a rank group.
fn job(name: &str, annotations: Value) -> Value {
    let mut annotations = annotations;
    annotations["kai.scheduler/batch-min-member"] = json!("2");
    let mut template = template(muster_tests::world::HOLD, NPU, 8, json!({}));
    template["spec"]["schedulerName"] = json!(SCHEDULER);
    template["metadata"]["labels"] = json!({SET: name});
    let template = marked(template, name, 2, TEMPLATE);
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": 2, "completions": 2, "template": template}})
}

/// Nodes by identity of the pods that have one and stay.
async fn places(world: &World, set: &str) -> Result<BTreeMap<String, String>> {
    let pods = world.pods_of(set).await?;
    let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
    let place = |pod: &Pod| Some((pod.uid()?, node(pod)?.to_owned()));
    Ok(pods.iter().filter(stays).filter_map(place).collect())
}

/// Waits until two pods have places that are as they should be.
async fn until_placed(
    world: &World,
    set: &str,
    what: &str,
    well: impl Fn(&BTreeMap<String, String>) -> bool,
) -> Result<BTreeMap<String, String>> {
    world
        .until(what, async || {
            let now = places(world, set).await?;
            let done = now.len() == 2 && well(&now);
            Ok(if done { Seen::Yes(now) } else { Seen::NotYet(format!("{now:?}")) })
        })
        .await
}

fn device(world: &World, node: &str) -> Result<PathBuf> {
    let node = world.kubelets().context("no nodes")?.node(node).context("no such node")?;
    Ok(node.spec().root.join("dev/davinci3"))
}

/// The group of a job, when it is as it should be.
async fn group(world: &World, job: &str, well: impl Fn(&Value) -> bool) -> Result<Value> {
    let pods = world.pods_of(job).await?;
    let mut names = pods.iter().filter_map(|pod| pod.annotations().get("pod-group-name").cloned());
    let name = names.next().context("no group")?;
    let head = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name}});
    world
        .until("the group says so", async || {
            let group = world.object(&head).await?;
            Ok(match well(&group) {
                true => Seen::Yes(group),
                false => Seen::NotYet(format!("{} {}", group["metadata"], group["status"])),
            })
        })
        .await
}

fn healthy(group: &Value) -> (&str, &str, &str) {
    let all = group.pointer("/status/conditions").and_then(Value::as_array);
    let one = all.into_iter().flatten().find(|one| one["type"] == "Healthy");
    let word = |key: &str| one.and_then(|one| one[key].as_str()).unwrap_or_default();
    (word("status"), word("reason"), word("message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_faulty_device_is_out_of_the_next_cycle_and_back_when_it_is_well() -> Result<()> {
    plan(1, SignedDuration::from_mins(5))
        .run(async |world| {
            let only = world.agents()?.iter().next().context("no agent")?.0.clone();
            let file = device(world, &only)?;
            world.queue("team", "", -1.0, -1.0).await?;
            world.pod_group("first", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("first", 0, "first", NPU, 8)).await?;
            let first = world.placed("first", 1).await?;
            std::fs::remove_file(&file)?;
            let faulty = async |is: bool| {
                world
                    .until("the hub's knowledge", async || {
                        let known = world.hub()?.inventory(&only);
                        let seen = known.is_some_and(|known| {
                            known.devices.iter().any(|device| !device.health.usable())
                        });
                        Ok(if seen == is { Seen::Yes(()) } else { Seen::NotYet(String::new()) })
                    })
                    .await
            };
            faulty(true).await?;
            let pods = world.api::<Pod>();
            let now = kube::api::DeleteParams::default().grace_period(0);
            pods.delete(&first[0].name_any(), &now).await?;
            world.pod_group("second", "team", 1, json!({})).await?;
            world.create_object(waiting_pod("second", 0, "second", NPU, 8)).await?;
            world
                .until("the reason of the second", async || {
                    let status = serde_json::to_string(&pods.get("second-0").await?.status)?;
                    Ok(match status.contains("LargerThanAnyNode") {
                        true => Seen::Yes(()),
                        false => Seen::NotYet(status),
                    })
                })
                .await?;
            std::fs::write(&file, "")?;
            world.placed("second", 1).await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_policy_none_a_gang_on_a_faulty_device_stays_and_its_group_says_what_is_bad()
-> Result<()> {
    plan(3, SignedDuration::from_mins(5))
        .run(async |world| {
            world.create_object(job("stays", json!({}))).await?;
            let before = until_placed(world, "stays", "both have nodes", |_| true).await?;
            delivered(world, "stays", 1).await?;
            let struck = before.values().next().context("none")?;
            let file = device(world, struck)?;
            std::fs::remove_file(&file)?;
            let said = group(world, "stays", |group| healthy(group).0 == "False").await?;
            let (_, reason, message) = healthy(&said);
            ensure!(reason == "DeviceFaulty", "{said}");
            ensure!(message.contains("device 3 of huawei.com/Ascend910"), "{message}");
            ensure!(message.contains("none: nothing is done"), "{message}");
            std::fs::write(&file, "")?;
            let said = group(world, "stays", |group| healthy(group).0 == "True").await?;
            ensure!(said["metadata"]["annotations"].get(RESTART).is_none(), "{said}");
            ensure!(places(world, "stays").await? == before, "somebody has gone");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_policy_evict_the_pod_is_replaced_and_the_group_gets_a_table_of_the_next_generation()
-> Result<()> {
    plan(3, SignedDuration::from_mins(5))
        .run(async |world| {
            let says = json!({"muster.dev/fault-policy": "evict"});
            world.create_object(job("part", says)).await?;
            let before = until_placed(world, "part", "both have nodes", |_| true).await?;
            let first = delivered(world, "part", 1).await?;
            let struck = before.values().next().context("none")?.clone();
            std::fs::remove_file(device(world, &struck)?)?;
            let what = "one pod on another node";
            let after =
                until_placed(world, "part", what, |now| now.values().all(|node| *node != struck))
                    .await?;
            let stayed = after.keys().filter(|uid| before.contains_key(*uid)).count();
            ensure!(stayed == 1, "{before:?} {after:?}");
            let servers = |text: &str| -> Result<BTreeSet<String>> {
                Ok(ranks(text)?.into_values().map(|(server, _)| server).collect())
            };
            // Between the two there may be one without the faulty device.
            let second = world
                .until("a table of the new places", async || {
                    let map = delivered(world, "part", generation(&first) + 1).await?;
                    let text = table(&map).to_owned();
                    let new = servers(&text).unwrap_or_default();
                    let whole = ranks(&text).is_ok_and(|ranks| ranks.len() == 16);
                    let done = whole && new != servers(table(&first))?;
                    Ok(if done { Seen::Yes(new) } else { Seen::NotYet(text) })
                })
                .await?;
            let old = servers(table(&first))?;
            ensure!(second.intersection(&old).count() == 1, "{old:?} {second:?}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_policy_gang_all_pods_are_replaced_and_not_again_within_the_cool_down() -> Result<()> {
    // Longer than a job takes to make its pods anew.
    let cool_down = SignedDuration::from_secs(40);
    plan(3, cool_down)
        .run(async |world| {
            let says = json!({"muster.dev/fault-policy": "gang"});
            world.create_object(job("whole", says)).await?;
            let first = until_placed(world, "whole", "both have nodes", |_| true).await?;
            delivered(world, "whole", 1).await?;
            let struck = first.values().next().context("none")?.clone();
            std::fs::remove_file(device(world, &struck)?)?;
            let others = |before: BTreeMap<String, String>, struck: String| {
                move |now: &BTreeMap<String, String>| {
                    now.iter().all(|(uid, node)| !before.contains_key(uid) && *node != struck)
                }
            };
            let what = "both are others";
            let second =
                until_placed(world, "whole", what, others(first.clone(), struck.clone())).await?;
            std::fs::write(device(world, &struck)?, "")?;
            delivered(world, "whole", 2).await?;
            let restarted = |group: &Value| -> Option<Timestamp> {
                group["metadata"]["annotations"][RESTART].as_str()?.parse().ok()
            };
            let once = restarted(&group(world, "whole", |group| restarted(group).is_some()).await?);
            let once = once.context("no time")?;

            // One of those that have come is struck too: it is left alone, and that is said; then there is another restart.
            let struck = second.values().next().context("none")?.clone();
            std::fs::remove_file(device(world, &struck)?)?;
            let left = |group: &Value| healthy(group).2.contains("stay until");
            let said = group(world, "whole", left).await?;
            ensure!(restarted(&said) == Some(once), "{said}");
            let again =
                restarted(&group(world, "whole", |group| restarted(group) > Some(once)).await?);
            let apart = again.context("no time")?.duration_since(once);
            ensure!(apart >= cool_down, "restarted again after {apart:?}");
            Ok(())
        })
        .await
}
