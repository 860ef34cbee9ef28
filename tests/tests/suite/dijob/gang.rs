//! A DIJob in a queue: one gang, whose collectors may be fewer.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use muster_dijob::server::REPLICAS;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::dijob::selector;
use muster_tests::world::scheduling::{SCHEDULER, node};
use serde_json::{Value, json};

use super::job;
use crate::suite::trainjob::groups::groups;
use crate::suite::workload::NPU;

/// A job whose pods wait for our scheduler; a learner has four devices, a collector two.
fn queued(name: &str, queue: &str) -> Value {
    let mut job = job(name, "Running");
    job["metadata"]["labels"] = json!({"kai.scheduler/queue": queue});
    for (role, devices) in [("coordinator", 0), ("learner", 4), ("collector", 2)] {
        let spec = &mut job["spec"][role]["template"]["spec"];
        spec["schedulerName"] = json!(SCHEDULER);
        if devices > 0 {
            let amount = json!({NPU: devices.to_string()});
            spec["containers"][0]["resources"] = json!({"limits": amount, "requests": amount});
        }
    }
    job
}

/// How many pods of each role have a node, and how many there are.
async fn placed(world: &World, job: &str) -> Result<BTreeMap<String, (usize, usize)>> {
    let mut counts = BTreeMap::<String, (usize, usize)>::new();
    for pod in world.pods(&selector(job)).await? {
        let role = pod.labels().get("replica-type").cloned().unwrap_or_default();
        let count = counts.entry(role).or_default();
        count.0 += usize::from(node(&pod).is_some());
        count.1 += 1;
    }
    Ok(counts)
}

async fn placed_are(world: &World, job: &str, expected: &[(&str, usize, usize)]) -> Result<()> {
    let expected: BTreeMap<String, (usize, usize)> =
        expected.iter().map(|(role, placed, all)| ((*role).to_owned(), (*placed, *all))).collect();
    world
        .until(&format!("{expected:?} of {job}"), async || {
            let found = placed(world, job).await?;
            Ok(if found == expected { Seen::Yes(()) } else { Seen::NotYet(format!("{found:?}")) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_job_in_a_queue_are_one_gang_and_collectors_are_those_that_wait() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let space = world.namespace().to_owned();
            let queue = world.own("rl");
            world.queue("rl", "", -1.0, -1.0).await?;
            world.create_object(queued("cart", &queue)).await?;
            world.dijob_is("cart", "Running").await?;
            let mut caller = world.di_caller().await?;
            let (none, one, three) =
                (json!({"replicas": 0}), json!({"replicas": 1}), json!({"replicas": 3}));
            let (status, made) = caller.create(&space, "cart-coordinator", &none, &one).await?;
            ensure!(status == 200, "{made}");
            placed_are(world, "cart", &[("coordinator", 1, 1), ("learner", 1, 1)]).await?;
            let (status, made) = caller.create(&space, "cart-coordinator", &three, &none).await?;
            ensure!(status == 200, "{made}");
            // Eight devices: four for the learner, and two for each of two collectors.
            let some = [("coordinator", 1, 1), ("learner", 1, 1), ("collector", 2, 3)];
            placed_are(world, "cart", &some).await?;
            let pods = world.pods(&selector("cart")).await?;
            let placed = pods.iter().filter(|pod| node(pod).is_some());
            let names: Vec<&String> =
                placed.filter_map(|pod| pod.annotations().get("pod-group-name")).collect();
            ensure!(names.len() == 4 && names.windows(2).all(|two| two[0] == two[1]), "{names:?}");
            let name = names.first().context("no group")?;
            let group = groups(world, "scheduling.run.ai", "v2alpha2").get(name).await?;
            let spec = &group.data["spec"];
            assert_eq!(spec["queue"], json!(queue));
            let least: BTreeMap<&str, i64> = spec["subGroups"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|sub| {
                    let name = sub["name"].as_str().unwrap_or_default();
                    (name, sub["minMember"].as_i64().unwrap_or_default())
                })
                .collect();
            let parts = BTreeMap::from([("coordinator", 1), ("learner", 1), ("collector", 0)]);
            assert_eq!(least, parts, "{spec}");
            // Of the collectors the one that waits goes first.
            let fewer =
                json!({"namespace": space, "coordinator": "cart-coordinator", "collectors": one});
            let (status, gone) = caller.ask("DELETE", REPLICAS, fewer.to_string()).await?;
            ensure!(status == 200, "{gone}");
            let all = [("coordinator", 1, 1), ("learner", 1, 1), ("collector", 2, 2)];
            placed_are(world, "cart", &all).await
        })
        .await
}
