//! The controller's cases: a cluster in memory, step by step.

use muster_conformance::Recordings;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use muster_modelserving::api::{ModelServing, Status};
use muster_modelserving::naming;
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::step::Kind;
use muster_modelserving::store::{Group, GroupState};
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, Record};
use crate::matching::Tokens;
use crate::{Outcome, cases};

/// All cases of the controller.
pub fn run(recordings: &Recordings) -> Vec<Outcome> {
    let outcome = |case: &Value| Outcome {
        name: case["name"].as_str().unwrap().to_owned(),
        result: replay(case),
    };
    cases(recordings, "controller").iter().map(outcome).collect()
}

fn replay(case: &Value) -> Result<(), String> {
    let given = &case["given"];
    let serving: ModelServing = serde_json::from_value(given["modelServing"].clone()).unwrap();
    let graceful = given["podTermination"] == "graceful";
    let mut cluster = Cluster::new(serving, api(&given["podGroupCRD"]), graceful);
    for object in given["objects"].as_array().into_iter().flatten() {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if object["kind"] == "Pod" { Kind::Pod } else { Kind::PodGroup };
        cluster.put(kind, name, object.clone());
    }
    let mut tokens = Tokens::default();
    let one_shot = json!([{"do": "start", "expect": case["expect"]}]);
    let steps = case.get("steps").unwrap_or(&one_shot).as_array().unwrap();
    for (at, step) in steps.iter().enumerate() {
        let before = cluster.serving.as_ref().and_then(|it| it.status.clone());
        cluster.record = Record::default();
        act(&mut cluster, step);
        cluster.settle();
        compare(&mut tokens, &cluster, &before.unwrap_or_default(), &step["expect"])
            .map_err(|miss| format!("step {at}, {}: {miss}", step["do"]))?;
    }
    Ok(())
}

fn api(name: &Value) -> PodGroupApi {
    match name.as_str() {
        Some("plain") => PodGroupApi::Plain,
        Some("subGroupPolicy") => PodGroupApi::SubGroups,
        _ => PodGroupApi::Absent,
    }
}

fn act(cluster: &mut Cluster, step: &Value) {
    let name = step["name"].as_str().unwrap_or_default();
    let pods = pods(cluster, &step["pods"]);
    match step["do"].as_str().unwrap() {
        "start" | "restartController" => cluster.start(),
        "podReady" => {
            for pod in
                pods.iter().filter(|pod| state(pod) != "Terminating" && state(pod) != "Ready")
            {
                cluster.pod_is_ready(pod.metadata.name.as_deref().unwrap());
            }
        }
        "podStatus" => change(cluster, &pods, |pod| {
            pod.status = serde_json::from_value(step["status"].clone()).unwrap();
        }),
        "podAnnotations" => change(cluster, &pods, |pod| {
            let more: std::collections::BTreeMap<String, String> =
                serde_json::from_value(step["annotations"].clone()).unwrap();
            pod.metadata.annotations.get_or_insert_default().extend(more);
        }),
        "podGone" => {
            pods.iter().for_each(|pod| cluster.pod_goes(pod.metadata.name.as_deref().unwrap()));
        }
        "terminated" => {
            for pod in pods.iter().filter(|pod| state(pod) == "Terminating") {
                cluster.pod_goes(pod.metadata.name.as_deref().unwrap());
            }
        }
        "serviceGone" => cluster.service_goes(name),
        "podGroupGone" => cluster.pod_group_goes(name),
        "updateSpec" => cluster.change_spec(serde_json::from_value(step["spec"].clone()).unwrap()),
        "updateAnnotations" => {
            let annotations = serde_json::from_value(step["annotations"].clone()).unwrap();
            cluster.serving.as_mut().unwrap().metadata.annotations = annotations;
        }
        "reconcile" => cluster.queue(),
        "podGroupCRD" => cluster.api = api(&step["podGroupCRD"]),
        "inject" => cluster.refused = step["fail"]["Name"].as_str().map(str::to_owned),
        "heal" => cluster.refused = None,
        "wait" => cluster.wait(Duration::from_secs_f64(step["seconds"].as_f64().unwrap())),
        "deleteModelServing" => cluster.serving = None,
        other => panic!("nobody knows how to {other}"),
    }
}

fn change(cluster: &mut Cluster, pods: &[Pod], change: impl Fn(&mut Pod)) {
    for pod in pods {
        cluster.change_pod(pod.metadata.name.as_deref().unwrap(), &change);
    }
}

/// The pods that the globs match; all if there are none.
fn pods(cluster: &Cluster, globs: &Value) -> Vec<Pod> {
    let globs: Vec<&str> =
        globs.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let matched = |name: &str| {
        globs.is_empty() || globs.iter().any(|glob| matches(glob.as_bytes(), name.as_bytes()))
    };
    let pods = cluster.pods.iter().filter(|(name, _)| matched(name));
    pods.map(|(_, pod)| pod.clone()).collect()
}

fn matches(glob: &[u8], name: &[u8]) -> bool {
    match glob.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((first, rest)) => {
            name.split_first().is_some_and(|(it, name)| it == first && matches(rest, name))
        }
    }
}

fn state(pod: &Pod) -> &str {
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let Some(status) = &pod.status else { return "New" };
    let conditions = status.conditions.iter().flatten();
    let ready = conditions.clone().any(|it| it.type_ == "Ready" && it.status == "True");
    match status.phase.as_deref() {
        Some("Running") if ready => "Ready",
        Some(phase) => phase,
        None => "New",
    }
}

fn compare(
    tokens: &mut Tokens,
    cluster: &Cluster,
    before: &Status,
    expect: &Value,
) -> Result<(), String> {
    let record = &cluster.record;
    let about = |what: &'static str| move |miss: String| format!("{what}: {miss}");
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    calls(tokens, &texts(&expect["calls"]), &record.calls).map_err(about("calls"))?;
    objects(tokens, &expect["creates"], &record.creates).map_err(about("creates"))?;
    objects(tokens, &expect["updates"], &record.updates).map_err(about("updates"))?;
    let deletes = expect["deletes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let deletes: Vec<String> =
        deletes.map(|it| format!("{} {}", text(&it["kind"]), text(&it["name"]))).collect();
    tokens.set(&deletes, &record.deletes).map_err(about("deletes"))?;
    let revisions: Vec<String> = cluster.revisions.keys().cloned().collect();
    let mut expected = expect["live"].clone();
    // Their names are opaque, and so is the order of these.
    let kept = expected.as_object_mut().unwrap().remove("controllerRevisions").unwrap();
    tokens.set(&texts(&kept), &revisions).map_err(about("live"))?;
    tokens.value(&expected, &live(cluster)).map_err(about("live"))?;
    if cluster.serving.is_some() {
        let store = expect["store"].as_array().unwrap().iter().map(known).collect();
        let groups = cluster.machine.store().groups().iter().map(group).collect();
        tokens.value(&Value::Array(store), &Value::Array(groups)).map_err(about("store"))?;
    }
    tokens.set(&texts(&expect["events"]), &record.notes).map_err(about("events"))?;
    if texts(&expect["syncErrors"]).is_empty() != record.errors.is_empty() {
        return Err(format!("errors: {:?}", record.errors));
    }
    let Some(serving) = &cluster.serving else { return Ok(()) };
    let status = serving.status.clone().unwrap_or_default();
    let racy = !cluster.graceful && record.deletes.iter().any(|it| it.starts_with("Pod"));
    conditions(&expect["conditions"], &status, before, racy).map_err(about("conditions"))?;
    let status = json!(Status { conditions: Vec::new(), ..status });
    tokens.value(&expect["status"], &status).map_err(about("status"))
}

/// In order, but for the services of a group, which go in any.
fn calls(tokens: &mut Tokens, recorded: &[String], got: &[String]) -> Result<(), String> {
    let sorted = |list: &[String]| {
        let mut list: Vec<String> =
            list.iter().filter(|call| !call.starts_with("updateStatus")).cloned().collect();
        for run in list
            .chunk_by_mut(|one, two| [one, two].iter().all(|it| it.starts_with("delete Service")))
        {
            run.sort();
        }
        list
    };
    let (recorded, got) = (sorted(recorded), sorted(got));
    let same = recorded.len() == got.len()
        && recorded.iter().zip(&got).all(|(recorded, got)| tokens.text(recorded, got));
    if same { Ok(()) } else { Err(format!("\n    expected {recorded:#?}\n    got      {got:#?}")) }
}

/// In order, kind by kind.
fn objects(tokens: &mut Tokens, recorded: &Value, got: &[Value]) -> Result<(), String> {
    for kind in ["ControllerRevision", "PodGroup", "Pod", "Service"] {
        let of = |list: &[Value]| -> Vec<Value> {
            list.iter().filter(|object| object["kind"] == kind).cloned().collect()
        };
        let recorded = of(recorded.as_array().map_or(&[], Vec::as_slice));
        let mut got = of(got);
        for (recorded, got) in recorded.iter().zip(&mut got) {
            let got = got.as_object_mut().unwrap();
            if recorded["apiVersion"].is_null() {
                got.remove("apiVersion");
            }
            let metadata = got["metadata"].as_object_mut().unwrap();
            ["uid", "resourceVersion"].iter().for_each(|key| drop(metadata.remove(*key)));
        }
        tokens.value(&json!(recorded), &json!(got)).map_err(|miss| format!("{kind} {miss}"))?;
    }
    Ok(())
}

fn live(cluster: &Cluster) -> Value {
    let pod = |(name, pod): (&String, &Pod)| {
        let revision = pod.metadata.labels.as_ref().and_then(|it| it.get(naming::REVISION));
        json!({"name": name, "revision": revision, "state": state(pod)})
    };
    json!({
        "podGroups": cluster.pod_groups.keys().collect::<Vec<_>>(),
        "pods": cluster.pods.iter().map(pod).collect::<Vec<_>>(),
        "services": cluster.services.keys().collect::<Vec<_>>(),
    })
}

/// A recorded group, without what is not kept here.
fn known(group: &Value) -> Value {
    let mut group = group.clone();
    group.as_object_mut().unwrap().remove("runningPods");
    if group["status"] == "Scaling" {
        group["status"] = "Creating".into();
    }
    group
}

fn group(group: &Group) -> Value {
    let roles = group.roles.iter().flat_map(|role| {
        role.list.iter().map(|instance| {
            json!({"role": &*role.role, "id": &*instance.id, "revision": &*instance.revision,
                "roleTemplateHash": &*instance.hash, "status": format!("{:?}", instance.state)})
        })
    });
    let state = match group.state {
        GroupState::Scaling => GroupState::Creating,
        state => state,
    };
    json!({"group": &*group.name, "revision": &*group.revision, "roles": roles.collect::<Vec<_>>(),
        "status": format!("{state:?}")})
}

/// A condition that is missing is false; a message counts where the condition has just become true.
fn conditions(
    recorded: &Value,
    status: &Status,
    before: &Status,
    racy: bool,
) -> Result<(), String> {
    let list = recorded.as_array().unwrap();
    let empty = Map::new();
    for kind in ["Available", "Progressing", "UpdateInProgress"] {
        let of = |status: &Status| status.conditions.iter().find(|it| it.kind == kind).cloned();
        let recorded = list.iter().find(|it| it["type"] == kind).and_then(Value::as_object);
        let recorded = recorded.unwrap_or(&empty);
        let recorded = |key: &str| recorded.get(key).and_then(Value::as_str).unwrap_or_default();
        let got = of(status).unwrap_or_default();
        let is_true = got.status == "True";
        let was_true = of(before).is_some_and(|before| before.status == "True");
        let both = !recorded("reason").is_empty() && !got.reason.is_empty();
        let reason = recorded("reason") == got.reason || !both;
        let fresh = is_true && !was_true && !racy && recorded("message") != "<unstable>";
        let message = !fresh || recorded("message") == got.message;
        if (recorded("status") == "True") != is_true || !reason || !message {
            return Err(format!("{kind}\n    expected {:?}\n    got      {got:?}", list));
        }
    }
    Ok(())
}
