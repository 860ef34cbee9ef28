//! Many ModelServings at once, as the benchmark has them, in small and without its stop-watch.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::servings::recorder::{Recorder, Write};
use muster_tests::world::Seen;
use serde_json::json;

use super::modelserving::{kthena, read, with_tables};
use super::ranktable::TEMPLATE;

/// With two roles of two pods with a device each they fill six nodes.
const SERVINGS: usize = 12;

/// Nothing is on its way any more when nobody has written for so long.
const QUIET: std::time::Duration = std::time::Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once() -> Result<()> {
    World::new()
        .nodes(6)
        .agents()
        .run(async |world| {
            let recorder = Recorder::default();
            world.add_coordinator_with(|client| recorder.client(client)).await?;
            world.coordinators_mut()?.end(0).await?;
            for number in 0..SERVINGS {
                let roles = [("prefill", 1, 1, 1), ("decode", 1, 1, 1)];
                let serving = kthena(&format!("many-{number}"), 1, &roles);
                world.create_object(with_tables(serving, TEMPLATE)).await?;
            }
            for number in 0..SERVINGS {
                for role in ["prefill", "decode"] {
                    assert_eq!(read(world, &format!("many-{number}-0-{role}-0"), 2).await?, 2);
                }
                let name = format!("many-{number}");
                world.serving_is(Shape::Kthena, &name, "Available", "True").await?;
                world.serving_is(Shape::Kthena, &name, "RanktableReady", "True").await?;
            }

            // Nothing that means anything has changed.
            quiet(&recorder).await;
            let (sent, before) = (recorder.count(), versions(world).await?);
            let looks = looks(world)?;
            let note = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
            for number in 0..SERVINGS {
                let api = world.servings(Shape::Kthena);
                api.patch(&format!("many-{number}"), &PatchParams::default(), &note).await?;
            }
            world
                .until("a look at each", async || {
                    let more = self::looks(world)? - looks;
                    let seen = Seen::NotYet(format!("{more} looks"));
                    Ok(if more >= SERVINGS as f64 { Seen::Yes(()) } else { seen })
                })
                .await?;
            quiet(&recorder).await;
            assert_eq!(told(&recorder.since(sent)), Vec::<String>::new());
            assert_eq!(versions(world).await?, before);

            // A coordinator that has seen nothing of it finds it as it should be. It knows nothing of its agents at first, and
            // says so in records; what it sees, it says in events.
            let newer = Recorder::default();
            world.add_coordinator_with(|client| newer.client(client)).await?;
            let first = world.coordinators()?.leader().context("nobody leads")?.number;
            world.coordinators_mut()?.end(first).await?;
            world
                .until("a look at each by another", async || {
                    let looks = self::looks(world)?;
                    let seen = Seen::NotYet(format!("{looks} looks"));
                    Ok(if looks >= SERVINGS as f64 { Seen::Yes(()) } else { seen })
                })
                .await?;
            quiet(&newer).await;
            let mut writes = newer.since(0);
            let place = format!("/namespaces/{}/", world.namespace());
            writes.retain(|write| write.target.contains(&place));
            writes.retain(|write| !["configmaps", "events"].contains(&write.resource().as_str()));
            assert_eq!(told(&writes), Vec::<String>::new());
            let is_record = |(name, _): &(String, String)| name.starts_with("ConfigMap ");
            let but_records = |all: BTreeMap<String, String>| -> BTreeMap<String, String> {
                all.into_iter().filter(|one| !is_record(one)).collect()
            };
            assert_eq!(but_records(versions(world).await?), but_records(before));
            Ok(())
        })
        .await
}

async fn quiet(recorder: &Recorder) {
    let mut before = None;
    while before != Some(recorder.count()) {
        before = Some(recorder.count());
        tokio::time::sleep(QUIET).await;
    }
}

fn told(writes: &[Write]) -> Vec<String> {
    writes.iter().map(Write::to_string).collect()
}

/// How often the leader has looked at a ModelServing.
fn looks(world: &World) -> Result<f64> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let figures =
        muster_tests::delivery::scrape::Figures::of(&leader.coordinator().status().registry);
    Ok(figures.get("muster_modelserving_plan_duration_seconds_count"))
}

/// The version of everything that ModelServings have.
async fn versions(world: &World) -> Result<BTreeMap<String, String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    fn put<K: ResourceExt>(versions: &mut BTreeMap<String, String>, kind: &str, list: Vec<K>) {
        for one in list {
            let version = one.resource_version().unwrap_or_default();
            versions.insert(format!("{kind} {}", one.name_any()), version);
        }
    }
    put(&mut versions, "Pod", world.api::<Pod>().list(&all).await?.items);
    put(&mut versions, "Service", world.api::<Service>().list(&all).await?.items);
    put(&mut versions, "ConfigMap", world.api::<ConfigMap>().list(&all).await?.items);
    put(&mut versions, "Revision", world.api::<ControllerRevision>().list(&all).await?.items);
    Ok(versions)
}
