//! People who write into the record, or delete it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use muster_tests::world::PATIENCE;
use serde_json::{Value, json};

use super::play::{Home, Stage};
use crate::suite::ranktable::{generation, records, table};

const LABELS: [&str; 2] = ["muster.dev/rank-group", "muster.dev/ranktable-record"];

/// What a person may do to a record, and what that is called.
fn edits() -> Vec<(&'static str, Value)> {
    let note = |key: &str, value: Value| json!({"metadata": {"annotations": {format!("muster.dev/ranktable-{key}"): value}}});
    let labels = json!({LABELS[0]: null, LABELS[1]: null});
    vec![
        ("another table", json!({"data": {"ranktable.json": "{}"}})),
        ("no table", json!({"data": {"ranktable.json": ""}})),
        ("no data", json!({"data": null})),
        ("one more key", json!({"data": {"a.json": "{}"}})),
        ("an older generation", note("generation", json!("0"))),
        ("no generation", note("generation", json!("none"))),
        ("the last generation of all", note("generation", json!(u64::MAX.to_string()))),
        ("another state", note("state", json!("changing"))),
        ("another digest", note("digest", json!("00"))),
        ("other members", note("members", json!("00"))),
        ("a later epoch", note("epoch", json!((u64::MAX / 2).to_string()))),
        ("no annotations", json!({"metadata": {"annotations": null}})),
        ("no labels", json!({"metadata": {"labels": labels}})),
        ("no marks at all", json!({"metadata": {"labels": labels, "annotations": null}})),
    ]
}

async fn edit(maps: &Api<ConfigMap>, name: &str, change: &Value) -> Result<()> {
    maps.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_do_to_a_record_is_put_right_and_generations_never_go_back() -> Result<()> {
    Stage::run(async |stage| {
        let mut play = stage.play("mine").await?;
        play.pod("a", Home::Volume, 0).await?;
        play.pod("b", Home::Agent, 1).await?;
        let mut before = play.delivered(1).await?;
        let maps = records(&play.stage.world);
        let name = before.name_any();
        for (what, change) in edits() {
            let begun = Instant::now();
            edit(&maps, &name, &change).await?;
            let after = whole(&mut play, &before).await.with_context(|| format!("after {what}"))?;
            println!("{what}: generation {}, {:.0?}", generation(&after), begun.elapsed());
            before = after;
        }
        maps.delete(&name, &DeleteParams::default()).await?;
        let after = whole(&mut play, &before).await.context("after it was deleted")?;
        ensure!(generation(&after) > generation(&before), "a new record, the same generation");
        // And while nobody who has seen it is left: agents and pods know.
        let leader = play.stage.leader().await?;
        maps.delete(&name, &DeleteParams::default()).await?;
        play.stage.kill(leader).await?;
        let last = whole(&mut play, &after).await.context("deleted, and the leader killed")?;
        println!("generation {} in the end", generation(&last));
        play.witness.judge_generations()?;
        Ok(())
    })
    .await
}

/// Waits until the record is as it should be, and all pods read what it says.
async fn whole(play: &mut super::play::Play<'_>, before: &ConfigMap) -> Result<ConfigMap> {
    let end = Instant::now() + PATIENCE;
    loop {
        let map = play.delivered(generation(before)).await?;
        let labelled = LABELS.iter().all(|label| map.labels().contains_key(*label));
        let state = map.annotations().get("muster.dev/ranktable-state");
        let published = state.is_some_and(|state| state == "published");
        if labelled && published && table(&map).contains("server_list") {
            return Ok(map);
        }
        ensure!(Instant::now() < end, "still {map:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_keeps_writing_into_the_record_delays_a_table_and_breaks_nothing() -> Result<()>
{
    Stage::run(async |stage| {
        let maps = records(&stage.world);
        let meddling = tokio::spawn(async move {
            for round in 0..40 {
                let edits = edits();
                let (_, change) = &edits[round % edits.len()];
                // It is not there at first, and not for long after each deletion.
                let _done = match round % 7 {
                    6 => maps.delete("busy-ranktable", &DeleteParams::default()).await.map(drop),
                    _ => {
                        let params = PatchParams::default();
                        maps.patch("busy-ranktable", &params, &Patch::Merge(change)).await.map(drop)
                    }
                };
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
        let mut play = stage.play("busy").await?;
        play.pod("a", Home::Agent, 0).await?;
        play.pod("b", Home::Agent, 1).await?;
        meddling.await?;
        let first = play.delivered(1).await?;
        play.delete("b").await?;
        play.pod("c", Home::Agent, 1).await?;
        play.delivered(generation(&first) + 1).await?;
        play.witness.judge_generations()?;
        Ok(())
    })
    .await
}
