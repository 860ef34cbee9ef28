//! A JobSet asks for a rank table and gets it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::narrator::Narrator;
use super::stopwatch::{Lap, Stopwatch, place, show};
use super::story::{take_away, wait};
use super::table::{WIDTH, cut};
use crate::World;
use crate::world::Seen;
use crate::world::jobset::selector;

/// What a reader of the guide pastes.
const MANIFEST: &str = include_str!("../../../docs/examples/jobset.yaml");
const GROUP: &str = "train";
const FILE: &str = "hccl.json";
const PODS: usize = 2;
const RANKS: usize = 16;
const LIMIT: Duration = Duration::from_secs(30);
/// Lines of the table that are shown.
const HEAD: usize = 12;
const INDENT: usize = 8;

/// Shows how two pods of eight devices each get their table. An error if they do not.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let manifest = manifest()?;
    narrator.step("submitting docs/examples/jobset.yaml: 2 pods x 8 NPUs that share a rank table");
    narrator.live("waiting for the table");
    let submit = async { world.create_object(manifest).await.map(drop) };
    let laps = Stopwatch::new(world, &[GROUP], FILE).run(PODS, LIMIT, submit).await?;
    narrator.step("both pods have their table and run");
    narrator.more(&show(&laps, WIDTH - INDENT).join("\n"));
    if cfg!(debug_assertions) {
        narrator
            .more("(an unoptimised build; cluster, agents and coordinators share this machine)");
    }
    let note = delivered(narrator, world).await?;
    narrator.more(&format!("the coordinator's own words, an event of JobSet {GROUP}:\n  {note}"));

    let text = check(world, &laps).await?;
    let first = laps.first().context("no pod")?;
    narrator.step(&format!("what {} reads in /etc/ascend/ranktable/{FILE}:", first.pod.name_any()));
    let lines: Vec<String> = text.lines().map(|line| cut(line, WIDTH - INDENT)).collect();
    narrator.more(&lines.iter().take(HEAD).cloned().collect::<Vec<_>>().join("\n"));
    narrator.more(&format!(
        "… and {} more lines: {RANKS} ranks on {PODS} servers; all pods and the record have the same bytes",
        lines.len().saturating_sub(HEAD)
    ));
    lead(narrator, world)?;
    take_away(narrator, world, &world.jobsets(), GROUP, &selector(GROUP)).await
}

/// The guide's example, kept to the machines with eight devices and running until it is deleted.
fn manifest() -> anyhow::Result<Value> {
    let mut set: Value = serde_saphyr::from_str(MANIFEST)?;
    let template = set
        .pointer_mut("/spec/replicatedJobs/0/template/spec/template")
        .context("the example has no pod template")?;
    template["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "ascend-910b-8"});
    template["metadata"]["annotations"]["sandbox.muster.dev/run-seconds"] = json!("86400");
    Ok(set)
}

/// Waits for the event that says so.
async fn delivered(narrator: &mut Narrator, world: &World) -> anyhow::Result<String> {
    let events: Api<Event> = world.api();
    wait(narrator, "the event RanktableDelivered", async || {
        let all = events.list(&ListParams::default()).await?.items;
        let ours = all.into_iter().find(|event| {
            event.reason.as_deref() == Some("RanktableDelivered")
                && event.involved_object.name.as_deref() == Some(GROUP)
        });
        Ok(match ours {
            Some(event) => Seen::Yes(event.message.unwrap_or_default()),
            None => Seen::NotYet("no such event".to_owned()),
        })
    })
    .await
}

/// Every pod reads what is recorded, and every rank is in it once.
async fn check(world: &World, laps: &[Lap]) -> anyhow::Result<String> {
    let map = world.api::<ConfigMap>().get(&format!("{GROUP}-ranktable")).await?;
    let recorded = map.data.unwrap_or_default().remove(FILE).context("the record is empty")?;
    for lap in laps {
        let file = place(world, &lap.pod, FILE).context("the pod has no node")?;
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        ensure!(text == recorded, "{} reads another table than is recorded", lap.pod.name_any());
    }
    let table: Value = serde_json::from_str(&recorded).context("the table is no JSON")?;
    let servers = table["server_list"].as_array().context("the table has no servers")?;
    let devices = servers.iter().filter_map(|server| server["device"].as_array()).flatten();
    let ranks: BTreeSet<&str> = devices.filter_map(|device| device["rank_id"].as_str()).collect();
    ensure!(
        servers.len() == PODS && ranks.len() == RANKS,
        "{} servers and {} ranks, not {PODS} and {RANKS}",
        servers.len(),
        ranks.len()
    );
    Ok(recorded)
}

fn lead(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let coordinators = world.coordinators()?;
    let leader = coordinators.leader().context("nobody leads")?.coordinator().status().snapshot();
    let others = coordinators.iter().count() - 1;
    narrator.step(&format!(
        "one of {} coordinators leads, in epoch {}:",
        others + 1,
        leader.epoch.unwrap_or_default()
    ));
    narrator.more(&leader.identity);
    Ok(())
}
