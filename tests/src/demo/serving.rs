//! ModelServings ask for rank tables and get them: a role on two nodes, two roles with a table each, a group with one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use muster_modelserving::shape::Shape;
use serde_json::{Map, Value, json};

use super::narrator::Narrator;
use super::stopwatch::{Lap, Stopwatch, milliseconds, place};
use super::story::{node_of, take_away, wait};
use super::table::{WIDTH, cut, table};
use crate::World;
use crate::world::Seen;
use crate::world::serving::{condition_of, selector};

const FILE: &str = "ranktable.json";
const LIMIT: Duration = Duration::from_secs(30);
/// Lines of a table that are shown.
const HEAD: usize = 10;
const INDENT: usize = 8;

/// A ModelServing that is shown.
struct Act {
    /// Where a reader finds it.
    path: &'static str,
    manifest: &'static str,
    what: &'static str,
    shape: Shape,
    name: &'static str,
    /// Those who share a table.
    groups: &'static [&'static str],
    pods: usize,
    ranks: usize,
    /// Whether it leaves room for the others.
    stays: bool,
}

const ACTS: [Act; 3] = [
    Act {
        path: "docs/examples/modelserving-mindie.yaml",
        manifest: include_str!("../../../docs/examples/modelserving-mindie.yaml"),
        what: "MindIE, a role of 2 pods x 8 NPUs on two nodes, one table",
        shape: Shape::Short,
        name: "qwen-inference",
        groups: &["qwen-inference-worker"],
        pods: 2,
        ranks: 16,
        stays: false,
    },
    Act {
        path: "docs/examples/modelserving-prefill-decode.yaml",
        manifest: include_str!("../../../docs/examples/modelserving-prefill-decode.yaml"),
        what: "prefill and decode, 2 pods x 2 NPUs each, a table each",
        shape: Shape::Kthena,
        name: "pd",
        groups: &["pd-0-prefill-0", "pd-0-decode-0"],
        pods: 4,
        ranks: 4,
        stays: true,
    },
    Act {
        path: "docs/examples/modelserving-vllm.yaml",
        manifest: include_str!("../../../docs/examples/modelserving-vllm.yaml"),
        what: "a vLLM group, entry and worker with 2 NPUs each, one shared table",
        shape: Shape::Kthena,
        name: "vllm",
        groups: &["vllm-0"],
        pods: 2,
        ranks: 4,
        stays: true,
    },
];

/// Shows how the pods of three ModelServings get their tables. An error if they do not.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    for (at, act) in ACTS.iter().enumerate() {
        let manifest = manifest(act.manifest)?;
        narrator.step(&format!("submitting {}:\n{:8}{}", act.path, "", act.what));
        narrator.live("waiting for the tables");
        let submit = async { world.create_object(manifest).await.map(drop) };
        let laps = Stopwatch::new(world, act.groups, FILE).run(act.pods, LIMIT, submit).await?;
        let last = laps.iter().filter_map(|lap| lap.times[3]).max().unwrap_or_default();
        narrator.step(&format!(
            "all {} pods have their table after {:.0} ms, and run",
            act.pods,
            last.as_secs_f64() * 1e3
        ));
        narrator.more(&show(act.groups, &laps, WIDTH - INDENT).join("\n"));
        for group in act.groups {
            let (text, told) = check(world, group, act.ranks, &laps).await?;
            narrator.more(&told);
            if at == 0 {
                let lines: Vec<String> = text.lines().map(|it| cut(it, WIDTH - INDENT)).collect();
                narrator.more(&lines.iter().take(HEAD).cloned().collect::<Vec<_>>().join("\n"));
                narrator.more(&format!("… and {} more lines", lines.len().saturating_sub(HEAD)));
            }
        }
        let said = ready(narrator, world, act).await?;
        narrator.more(&format!("ModelServing {} says: {said}", act.name));
        if !act.stays {
            let api = world.servings(act.shape);
            take_away(narrator, world, &api, act.name, &selector(act.name)).await?;
        }
    }
    Ok(())
}

/// An example, kept to the machines with eight devices.
fn manifest(text: &str) -> anyhow::Result<Value> {
    let mut serving: Value = serde_saphyr::from_str(text)?;
    each_pod(&mut serving, &mut |spec| {
        let node = json!({"node.kubernetes.io/instance-type": "ascend-910b-8"});
        spec.insert("nodeSelector".to_owned(), node);
    });
    Ok(serving)
}

fn each_pod(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) if fields.get("containers").is_some_and(Value::is_array) => {
            change(fields);
        }
        Value::Object(fields) => fields.values_mut().for_each(|inner| each_pod(inner, change)),
        Value::Array(items) => items.iter_mut().for_each(|inner| each_pod(inner, change)),
        _ => {}
    }
}

/// Each group with its pods below it, and when each of them was how far, in milliseconds.
fn show(groups: &[&str], laps: &[Lap], width: usize) -> Vec<String> {
    let header =
        ["MS AFTER SUBMIT, BY TABLE", "CREATED", "DEVICES", "RECORDED", "  FILE", "STARTED"];
    let mut rows = Vec::new();
    for group in groups {
        let of_it = || laps.iter().filter(|lap| lap.group() == *group);
        let recorded = of_it().find_map(|lap| lap.times[2]);
        let mut row = vec![(*group).to_owned(), String::new(), String::new()];
        row.push(format!("{:>8}", milliseconds(recorded)));
        rows.push(row);
        for lap in of_it() {
            let [created, devices, _, file, started] = lap.times.map(milliseconds);
            rows.push(vec![
                format!("  {}", lap.pod.name_any()),
                format!("{created:>7}"),
                format!("{devices:>7}"),
                String::new(),
                format!("{file:>6}"),
                format!("{started:>7}"),
            ]);
        }
    }
    table(&header, &rows, width)
}

/// The pods of a group read what is recorded, and every rank is in it once: the table, and that in a sentence.
async fn check(
    world: &World,
    group: &str,
    ranks: usize,
    laps: &[Lap],
) -> anyhow::Result<(String, String)> {
    let map = world.api::<ConfigMap>().get(&format!("{group}-ranktable")).await?;
    let recorded = map.data.unwrap_or_default().remove(FILE).context("the record is empty")?;
    let mut readers = 0;
    for lap in laps.iter().filter(|lap| lap.group() == group) {
        let file = place(world, &lap.pod, FILE).context("the pod has no node")?;
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        ensure!(text == recorded, "{} reads another table than is recorded", lap.pod.name_any());
        readers += 1;
    }
    let table: Value = serde_json::from_str(&recorded).context("the table is no JSON")?;
    let servers = table["server_list"].as_array().context("the table has no servers")?;
    let devices = servers.iter().filter_map(|server| server["device"].as_array()).flatten();
    let found: BTreeSet<&str> = devices.filter_map(|device| device["rank_id"].as_str()).collect();
    ensure!(found.len() == ranks, "{group}: {} ranks, not {ranks}", found.len());
    let told = format!(
        "{group}-ranktable: {ranks} ranks on {} servers, the same bytes for {readers} pods",
        servers.len()
    );
    Ok((recorded, told))
}

/// Waits until the ModelServing itself says so.
async fn ready(narrator: &mut Narrator, world: &World, act: &Act) -> anyhow::Result<String> {
    let api = world.servings(act.shape);
    wait(narrator, "the condition RanktableReady", async || {
        let object = serde_json::to_value(api.get(act.name).await?)?;
        Ok(match condition_of(&object, "RanktableReady") {
            Some((status, _, message)) if status == "True" => Seen::Yes(message),
            other => Seen::NotYet(format!("it is {other:?}")),
        })
    })
    .await
}

/// What a reader can look at.
pub(super) async fn commands(world: &World, kubectl: &str) -> anyhow::Result<String> {
    let (name, group) = ("vllm", "vllm-0");
    let pods = world.pods(&selector(name)).await?;
    let pod = pods.first().context("the pods are gone")?;
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let coordinator = leader.coordinator().addresses().status;
    let agent = world.agent(node_of(pod))?.address().context("the agent has no page")?;
    Ok(format!(
        "The ModelServings and a rank table: its record, what happened, how a pod waited\n\
         \x20 {kubectl} get modelservings.workload.serving.volcano.sh\n\
         \x20 {kubectl} get configmap {group}-ranktable -o yaml\n\
         \x20 {kubectl} describe modelservings.workload.serving.volcano.sh {name}\n\
         \x20 {kubectl} logs {pod} -c wait-ranktable\n\
         \x20 curl -s http://{coordinator}/v1/servings\n\
         Pages for a browser\n\
         \x20 http://{coordinator}/   the coordinator that leads: ModelServings, groups, nodes\n\
         \x20 http://{agent}/   the agent of {node}: devices, pods, tables\n",
        pod = pod.name_any(),
        node = node_of(pod),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn lap(group: &str, name: &str) -> Lap {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.labels = Some([("muster.dev/rank-group".into(), group.into())].into());
        Lap { pod, times: [1234, 1235, 1236, 1237, 1238].map(|at| Some(Duration::from_millis(at))) }
    }

    #[test]
    fn each_table_stands_above_the_pods_that_read_it() {
        let laps =
            [lap("pd-0-prefill-0", "pd-0-prefill-0-0"), lap("pd-0-decode-0", "pd-0-decode-0-0")];
        let lines = show(&["pd-0-prefill-0", "pd-0-decode-0"], &laps, WIDTH - INDENT);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH - INDENT), "{lines:#?}");
        let names: Vec<&str> =
            lines.iter().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(
            names,
            ["pd-0-prefill-0", "pd-0-prefill-0-0", "pd-0-decode-0", "pd-0-decode-0-0"]
        );
        assert!(lines[1].ends_with(" 1236.0"), "{}", lines[1]);
        assert!(lines[2].ends_with("1237.0   1238.0"), "{}", lines[2]);
    }

    #[test]
    fn the_examples_are_kept_to_machines_with_eight_devices() {
        for act in &ACTS {
            let text = manifest(act.manifest).unwrap().to_string();
            let pods = text.matches("\"containers\"").count();
            assert!(pods > 0, "{}", act.path);
            assert_eq!(text.matches("ascend-910b-8").count(), pods, "{}", act.path);
            assert!(act.what.len() <= WIDTH - INDENT, "{}", act.what);
        }
    }
}
