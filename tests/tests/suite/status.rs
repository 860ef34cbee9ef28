//! What the leader's status says of ModelServings.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube::api::DeleteParams;
use muster_coordinator::workloads::modelserving::view::ServingStatus;
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

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
