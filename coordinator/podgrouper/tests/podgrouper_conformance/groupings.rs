//! Groupings: the pass over one pod, in a cluster that has just these objects.

use std::collections::BTreeMap;

use muster_podgrouper::{Action, Config, Given, GroupError, Object, Outcome as Grouped, group};
use serde_json::{Value, json};

use crate::{Outcome, definitions, expected, same};

pub fn replay(case: &Value) -> Outcome {
    let name = case["name"].as_str().unwrap().to_owned();
    Outcome { name, result: run(case) }
}

fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let pod = Object::new(input["pod"].clone());
    let objects = input["objects"].as_array().into_iter().flatten().cloned().map(Object::new);
    let mut given = Given::new(objects);
    given.put(pod.clone());
    for kind in input["forbidden"].as_array().into_iter().flatten() {
        let (group, kind) = kind.as_str().unwrap().split_once('/').unwrap();
        given.forbid(group, kind);
    }
    let ours = group(&pod, &given, &config(&input["config"]));
    compare(&pod, ours, expected(case))
}

fn config(flags: &Value) -> Config {
    let text = |key: &str, otherwise: &str| flags[key].as_str().unwrap_or(otherwise).to_owned();
    let namespace = text("defaultsConfigMapNamespace", "");
    let name = text("defaultsConfigMapName", "");
    Config {
        scheduler_names: vec![text("schedulerName", "kai-scheduler")],
        queue_label: text("queueLabelKey", "kai.scheduler/queue"),
        node_pool_label: text("nodePoolLabelKey", "kai.scheduler/node-pool"),
        defaults: (!name.is_empty() && !namespace.is_empty()).then_some((namespace, name)),
        legacy_groups: flags["searchForLegacyPodGroups"].as_bool().unwrap_or(true),
        knative_gang: flags["knativeGangSchedule"].as_bool().unwrap_or(true),
        namespace_queues: false,
        ..Config::default()
    }
}

fn compare(
    pod: &Object,
    ours: Result<Grouped, GroupError>,
    recorded: &Value,
) -> Result<(), String> {
    if let Some(error) = recorded.get("error") {
        let class = error["class"].as_str().unwrap();
        return match ours {
            Err(ours) if class == "panic" || ours.class.reason() == class => Ok(()),
            Err(ours) => Err(format!("{} instead of {class}: {ours}", ours.class.reason())),
            Ok(ours) => Err(format!("{:?} instead of error {class}", ours.action)),
        };
    }
    let ours = ours.map_err(|error| format!("{}: {error}", error.class.reason()))?;
    same("action", &json!(ours.action.word()), &recorded["action"])?;
    if !matches!(ours.action, Action::Skipped(_)) {
        let written = ours.pod_group.as_ref().unwrap();
        for key in ["name", "namespace", "ownerReferences"] {
            same(key, &written["metadata"][key], &recorded["podGroup"][key])?;
        }
        for key in ["labels", "annotations"] {
            let ours = written["metadata"].get(key).cloned().unwrap_or(json!({}));
            same(key, &ours, &recorded["podGroup"][key])?;
        }
        same("spec", &written["spec"], &recorded["podGroup"]["spec"])?;
        let errors = definitions::refused("PodGroup", written, None);
        let ours = errors.first().map_or(Value::Null, |error| json!(definitions::class(error)));
        let recorded = recorded.get("apiRejects").map_or(Value::Null, |e| e["class"].clone());
        same("what the API would say", &ours, &recorded)?;
    }
    let marks = ours.pod.unwrap_or_default();
    let with = |mut map: BTreeMap<String, String>, more: BTreeMap<String, String>| {
        map.extend(more);
        json!(map)
    };
    same("pod labels", &with(pod.labels(), marks.labels), &recorded["pod"]["labels"])?;
    let annotations = with(pod.annotations(), marks.annotations);
    same("pod annotations", &annotations, &recorded["pod"]["annotations"])?;
    same("other pods", &Value::Null, recorded.get("otherPods").unwrap_or(&Value::Null))
}
