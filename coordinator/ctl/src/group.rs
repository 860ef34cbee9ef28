//! `group`.

mod sample;
mod tree;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use muster_podgrouper::group::{Action, Outcome, Skip};
use muster_podgrouper::{Config, Given, Key, Object, Objects, Refusal, group, names};
use serde_json::{Value as Json, json};

use crate::args::{GroupArgs, PlanOutput};
use crate::modelserving::called;
use crate::{Failure, input, note};

/// More pods of one workload say nothing new.
const MOST_PODS: usize = 1_000;

/// What the files say. Nobody knows offline which priority classes there are: all of them.
struct Files {
    given: Given,
    /// Pods that are left alone, by why.
    left: BTreeMap<String, Vec<String>>,
}

/// A group that pods would become.
struct Found {
    action: Action,
    group: Json,
    /// How many pods each part has; of the whole, under no name.
    pods: BTreeMap<String, usize>,
}

pub(crate) fn group_files(args: &GroupArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut objects = Vec::new();
    for file in &args.files {
        objects.extend(input::objects(file)?);
    }
    objects.iter_mut().for_each(complete);
    let given = Given::new(objects.iter().cloned().map(Object::new));
    let mut files = Files { given, left: BTreeMap::new() };
    let mut pods = Vec::new();
    let mut wrong = false;
    for object in &objects {
        match sample::pods(object, &objects) {
            Ok(sample) => {
                sample.others.into_iter().for_each(|other| files.put(other));
                pods.extend(sample.pods);
            }
            Err(why) => {
                wrong = true;
                note(format_args!("{}: {why}", called(object)));
            }
        }
    }
    let config = Config {
        scheduler_names: vec![args.scheduler.clone()],
        default_queue: args.default_queue.clone(),
        ..Config::default()
    };
    pods.iter_mut().for_each(|pod| choose_scheduler(pod, &args.scheduler));
    pods.iter().for_each(|pod| files.put(pod.clone()));
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for pod in pods {
        match group(&Object::new(pod.clone()), &files, &config) {
            Ok(outcome) => files.keep(pod, outcome, &mut found),
            Err(error) => {
                wrong = true;
                note(error);
            }
        }
    }
    for (why, pods) in &files.left {
        let first = pods.first().map_or("", String::as_str);
        match pods.len() {
            1 => note(format_args!("{first} is left alone: {why}")),
            many => note(format_args!("{first} and {} more are left alone: {why}", many - 1)),
        }
    }
    if found.is_empty() && !wrong {
        note("no pod would have a group");
    }
    print(args.output, found.into_values().collect(), out)?;
    Ok(wrong)
}

fn print(output: PlanOutput, found: Vec<Found>, out: &mut dyn Write) -> Result<(), Failure> {
    match output {
        PlanOutput::Table => tree::print(&found, out)?,
        PlanOutput::Yaml => {
            for (at, found) in found.iter().enumerate() {
                let text = serde_saphyr::to_string(&found.group).map_err(Failure::wrong)?;
                let mark = if at > 0 { "---\n" } else { "" };
                writeln!(out, "{mark}{}", text.trim_end_matches('\n'))?;
            }
        }
        PlanOutput::Json => {
            let items: Vec<Json> = found.into_iter().map(|found| found.group).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            writeln!(out, "{}", serde_json::to_string_pretty(&list).map_err(Failure::wrong)?)?;
        }
    }
    Ok(())
}

/// What every object in a cluster has. Nobody knows a uid before.
fn complete(object: &mut Json) {
    let Some(metadata) = object.get_mut("metadata").and_then(Json::as_object_mut) else { return };
    metadata.entry("uid").or_insert_with(|| "UID".into());
    let kind = object["kind"].as_str().unwrap_or_default();
    let everywhere = ["Namespace", "PriorityClass", "Queue", "Topology", "ClusterTrainingRuntime"];
    if !everywhere.contains(&kind) && object["metadata"]["namespace"].as_str().is_none() {
        object["metadata"]["namespace"] = json!("default");
    }
}

/// Who names no scheduler is shown as if it named ours.
fn choose_scheduler(pod: &mut Json, scheduler: &str) {
    if let Some(spec) = pod.get_mut("spec").and_then(Json::as_object_mut) {
        spec.entry("schedulerName").or_insert_with(|| scheduler.into());
    }
}

fn left(pod: &Json, why: Skip) -> String {
    let scheduler = pod["spec"]["schedulerName"].as_str().unwrap_or_default();
    match why {
        Skip::Scheduler => format!("{scheduler} has it; see it with --scheduler {scheduler}"),
        other => other.words().to_owned(),
    }
}

fn set(pod: &mut Json, place: &str, marks: &BTreeMap<String, String>) {
    let Some(metadata) = pod.get_mut("metadata").and_then(Json::as_object_mut) else { return };
    let map = metadata.entry(place).or_insert_with(|| json!({}));
    let Some(map) = map.as_object_mut() else { return };
    map.extend(marks.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
}

// === impl Files ===

impl Files {
    fn put(&mut self, object: Json) {
        self.given.put(Object::new(object));
    }

    /// The next pod finds what this one left.
    fn keep(&mut self, mut pod: Json, outcome: Outcome, found: &mut BTreeMap<String, Found>) {
        let Some(group) = outcome.pod_group else {
            if let Action::Skipped(why) = outcome.action {
                self.left.entry(left(&pod, why)).or_default().push(called(&pod));
            }
            return;
        };
        let marks = outcome.pod.unwrap_or_default();
        set(&mut pod, "annotations", &marks.annotations);
        set(&mut pod, "labels", &marks.labels);
        let part = pod["metadata"]["labels"][names::SUB_GROUP].as_str().unwrap_or_default();
        let part = part.to_owned();
        let name = called(&group);
        let entry = found.entry(name).or_insert_with(|| Found {
            action: outcome.action,
            group: Json::Null,
            pods: BTreeMap::new(),
        });
        entry.group = group.clone();
        *entry.pods.entry(part).or_default() += 1;
        self.put(group);
        self.put(pod);
    }
}

impl Objects for Files {
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        if key.kind == "PriorityClass" {
            let class = json!({"kind": "PriorityClass", "metadata": {"name": key.name}});
            return Ok(Arc::new(Object::new(class)));
        }
        self.given.get(key)
    }

    fn pods(&self, namespace: &str, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal> {
        self.given.pods(namespace, labels)
    }

    fn pod_groups(&self, namespace: &str, prefix: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        self.given.pod_groups(namespace, prefix)
    }
}
