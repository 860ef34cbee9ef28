//! Admissions: what the definition says, then the rules, in the API server's order.

use muster_podgrouper::admission::pod::Sharing;
use muster_podgrouper::admission::{Refused, pod_group, queue, topology};
use muster_podgrouper::{Given, Object};
use serde_json::{Value, json};

use crate::{Outcome, definitions, expected, same};

/// What is recorded of a refusal.
struct Refusal {
    stage: &'static str,
    class: String,
    warnings: Vec<String>,
}

pub fn replay(case: &Value) -> Outcome {
    let name = case["name"].as_str().unwrap().to_owned();
    Outcome { name, result: run(case) }
}

fn run(case: &Value) -> Result<(), String> {
    let recorded = expected(case);
    let input = &case["input"];
    if case["kind"] == "Pod" {
        return pod(input, recorded);
    }
    match object(case["kind"].as_str().unwrap(), input) {
        Ok(warnings) => {
            same("allowed", &json!(true), &recorded["allowed"])?;
            same_warnings(&warnings, recorded)
        }
        Err(refusal) => refused(&refusal, recorded),
    }
}

fn refused(ours: &Refusal, recorded: &Value) -> Result<(), String> {
    same("allowed", &json!(false), &recorded["allowed"])
        .map_err(|e| format!("{e} {}", ours.class))?;
    same("stage", &json!(ours.stage), &recorded["stage"])?;
    same("class", &json!(ours.class), &recorded["class"])?;
    same_warnings(&ours.warnings, recorded)
}

fn same_warnings(ours: &[String], recorded: &Value) -> Result<(), String> {
    let theirs = recorded.get("warnings").cloned().unwrap_or(json!([]));
    same("warnings", &json!(ours), &theirs)
}

fn object(kind: &str, input: &Value) -> Result<Vec<String>, Refusal> {
    let operation = input["operation"].as_str().unwrap();
    let old = input.get("oldObject").filter(|old| !old.is_null());
    let mut raw = input["object"].clone();
    if operation != "DELETE" {
        let errors = definitions::complete(kind, &mut raw, old);
        if let Some(error) = errors.first() {
            let class = definitions::class(error);
            return Err(Refusal { stage: "schema", class, warnings: Vec::new() });
        }
    }
    let ours = Object::new(raw);
    let objects = input["objects"].as_array().into_iter().flatten().cloned().map(Object::new);
    let given = Given::new(objects);
    let old = old.cloned().map(Object::new);
    let quotas = input["config"]["quotaValidation"].as_bool().unwrap_or(false);
    let webhook = |refused: Refused| Refusal {
        stage: "webhook",
        class: refused.class.to_owned(),
        warnings: refused.warnings,
    };
    match (kind, operation) {
        ("Queue", "DELETE") => queue::check_delete(&ours).map(|()| Vec::new()).map_err(webhook),
        (_, "DELETE") => Ok(Vec::new()),
        ("Queue", _) => queue::check(&ours, old.as_ref(), &given, quotas).map_err(webhook),
        ("Topology", _) => topology::check(&ours).map(|()| Vec::new()).map_err(webhook),
        _ => pod_group::check(&ours, operation == "UPDATE").map_err(webhook),
    }
}

fn pod(input: &Value, recorded: &Value) -> Result<(), String> {
    let flags = &input["config"];
    let sharing = Sharing {
        scheduler_names: vec!["kai-scheduler".to_owned()],
        enabled: flags["gpuSharingEnabled"].as_bool().unwrap_or(true),
        runtime_class: flags["gpuPodRuntimeClassName"].as_str().unwrap_or("nvidia").to_owned(),
    };
    let pod = Object::new(input["object"].clone());
    let namespace = flags["requestNamespace"].as_str().unwrap_or(pod.namespace());
    let stage = |stage: &'static str, refused: Refused| Refusal {
        stage,
        class: refused.class.to_owned(),
        warnings: refused.warnings,
    };
    let mutated = match input["operation"].as_str().unwrap() {
        "CREATE" => sharing.mutate(&pod, namespace, "*******"),
        _ => Ok(pod.raw().clone()),
    };
    let mutated = match mutated {
        Ok(mutated) => mutated,
        Err(error) => return refused(&stage("mutate", error), recorded),
    };
    if let Err(error) = sharing.check(&Object::new(mutated.clone())) {
        return refused(&stage("webhook", error), recorded);
    }
    same("allowed", &json!(true), &recorded["allowed"])?;
    let Some(theirs) = recorded.get("mutated") else { return Ok(()) };
    same("pod", &plain(mutated), &plain(theirs.clone()))
}

/// Typed pods say that containers have no resources; that says nothing.
fn plain(mut pod: Value) -> Value {
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let map = container.as_object_mut().unwrap();
            if map.get("resources").is_some_and(|value| *value == json!({})) {
                map.remove("resources");
            }
        }
    }
    pod
}
