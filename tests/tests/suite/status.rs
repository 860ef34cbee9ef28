//! What the leader's status says of ModelServings.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use muster_coordinator::workloads::modelserving::view::ServingStatus;
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::docs::get;
use super::ranktable::TEMPLATE;
use super::workload::{NPU, template};

fn serving(name: &str, ranktable: &str) -> Value {
    let mut pod = template(HOLD, NPU, 1, json!({}));
    pod["spec"]["restartPolicy"] = json!("Always");
    json!({
        "apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": name, "annotations": {"kthena.io/ranktable-template": ranktable}},
        "spec": {"roles": [{"name": "worker", "replicas": 2, "template": pod}]},
    })
}

/// Waits until what is shown is as it should be.
async fn shown(
    world: &World,
    what: &str,
    is: impl Fn(&[Arc<ServingStatus>]) -> bool,
) -> Result<Vec<Arc<ServingStatus>>> {
    world
        .until(what, async || {
            let leader = world.coordinators()?.leader().context("nobody leads")?;
            let all = leader.coordinator().status().snapshot().servings;
            Ok(if is(&all) { Seen::Yes(all) } else { Seen::NotYet(format!("{all:?}")) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_says_how_model_servings_stand_until_they_are_gone() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            world.create_object(serving("good", TEMPLATE)).await?;
            world.create_object(serving("lost", "no-such-template")).await?;
            let all = shown(world, "both ModelServings", |all| {
                all.len() == 2
                    && all[0].tables == 1
                    && all[0].complete()
                    && all[1].trouble.is_some()
            })
            .await?;
            let expected = ServingStatus {
                api_version: Shape::Short.api_version(),
                namespace: world.namespace().to_owned(),
                name: "good".to_owned(),
                groups: 1,
                ready_groups: 1,
                pods: 2,
                rank_groups: 1,
                tables: 1,
                trouble: None,
            };
            assert_eq!(*all[0], expected);
            let trouble = all[1].trouble.as_deref().unwrap_or_default();
            assert!(trouble.contains("no-such-template"), "{trouble}");
            assert_eq!((all[1].pods, all[1].rank_groups), (0, 0));

            let api = world.servings(Shape::Short);
            api.delete("good", &DeleteParams::background()).await?;
            shown(world, "one of them", |all| all.len() == 1 && all[0].name == "lost").await?;
            Ok(())
        })
        .await
}

/// Waits until the coordinator of this number has these loops, and all its loops have answered.
async fn answers(world: &World, number: usize, names: &[&str]) -> Result<()> {
    let asked = |now| -> Result<_> {
        let all = world.coordinators()?;
        let one = all.iter().find(|one| one.number == number).context("gone")?;
        let hearts = &one.coordinator().status().heartbeats;
        let stuck = hearts.check(now);
        ensure!(stuck.is_empty(), "{stuck:?}");
        Ok((one.coordinator().addresses().status, hearts.all(now)))
    };
    asked(Instant::now())?;
    world
        .until("an answer of all loops", async || {
            let (address, all) = asked(Instant::now())?;
            let page = get(address, "/healthz?verbose").await?;
            ensure!(page.starts_with("HTTP/1.1 200"), "{page}");
            // Each question is answered, the last one a moment after it is asked.
            let late = |silent: &Option<Duration>| silent.is_some_and(|time| !time.is_zero());
            let there = names.iter().all(|name| all.iter().any(|(known, _)| known == name));
            Ok(match !there || all.iter().any(|(_, silent)| late(silent)) {
                true => Seen::NotYet(page),
                false => Seen::Yes(()),
            })
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn liveness_does_not_end_while_the_api_server_is_away() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let (number, wire) = world.wired_coordinator().await?;
            let always = ["election", "leading", "hub", "webhooks"];
            answers(world, number, &always).await?;
            answers(world, number, &["ranktable", "trainjob", "scheduler"]).await?;
            wire.cut();
            // It has lost the lead, and what only a leader does has ended.
            world
                .until("nobody leads", async || {
                    let leads = world.coordinators()?.leader().is_some();
                    Ok(if leads { Seen::NotYet(String::new()) } else { Seen::Yes(()) })
                })
                .await?;
            answers(world, number, &always).await?;
            wire.mend();
            Ok(())
        })
        .await
}
