//! What Kubernetes 1.34 itself made of a table of updates, applies and strategic patches.
//!
//! `recorded.json` holds each case with the result of every step as recorded from Kubernetes' own field
//! manager; here the same steps run through this crate. Managed fields and refusals must be equal, and
//! so must the objects, apart from what is empty (Go writes some fields even when unset).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use muster_objects::apply::{Apply, apply};
use muster_objects::managed::{Reset, track_update};
use muster_objects::shape::Shape;
use muster_objects::status::Status;
use muster_objects::strategic::strategic;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn reset_of(step: &Value) -> Reset {
    let paths: Vec<Vec<&str>> = step["reset"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().split('.').collect())
        .collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    Reset::fields(&paths)
}

fn run(case: &Value, step: &Value, live: Option<&Value>, shape: &Shape) -> Result<Value, Status> {
    let reset = reset_of(step);
    let (manager, subresource) = (text(step, "manager"), text(step, "subresource"));
    let api_version = text(case, "apiVersion");
    if step["op"] == "apply" {
        return apply(Apply {
            live,
            config: &step["object"],
            manager,
            force: step["force"] == true,
            subresource,
            api_version,
            kind: text(case, "kind"),
            now: NOW,
            shape,
            reset: &reset,
        });
    }
    let mut new = step["object"].clone();
    if step["op"] == "smp" {
        new = strategic(live.unwrap(), &step["object"], shape)?;
    }
    if case.get("schema").is_none() {
        shape.complete(&mut new);
    }
    track_update(live, &mut new, manager, subresource, api_version, NOW, shape, &reset);
    Ok(new)
}

/// Without what is empty or zero, at any depth.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(k, v)| (k.clone(), bare(v))).filter(|(_, v)| !v.is_null());
            let kept: serde_json::Map<String, Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Number(n) if n.as_i64() == Some(0) => Value::Null,
        Value::Bool(false) => Value::Null,
        other => other.clone(),
    }
}

fn without_identity(object: &Value) -> Value {
    let mut object = object.clone();
    let meta = object["metadata"].as_object_mut().unwrap();
    for key in ["managedFields", "uid", "creationTimestamp"] {
        meta.remove(key);
    }
    for key in ["apiVersion", "kind"] {
        object.as_object_mut().unwrap().remove(key);
    }
    bare(&object)
}

fn check(case: &Value, problems: &mut Vec<String>) {
    let shape = match case.get("schema") {
        Some(schema) => Shape::from_openapi(schema),
        None => {
            let group = text(case, "apiVersion").split_once('/').map_or("", |(group, _)| group);
            Shape::builtin(group, text(case, "kind"))
        }
    };
    let mut live: Option<Value> = None;
    for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let mut complain = |what: &str, ours: &Value, theirs: &Value| {
            if ours != theirs {
                problems.push(format!(
                    "{} / step {at} / {what}\n  ours   {ours}\n  theirs {theirs}",
                    case["name"]
                ));
            }
        };
        let expect = &step["expect"];
        match run(case, step, live.as_ref(), &shape) {
            Ok(mut object) => {
                if case.get("schema").is_none() {
                    shape.complete(&mut object);
                }
                let theirs = &expect["object"];
                if theirs.is_null() {
                    complain("not refused", &object, expect);
                    continue;
                }
                let managed = |o: &Value| o["metadata"].get("managedFields").cloned().into();
                complain("managed fields", &managed(&object), &managed(theirs));
                complain("object", &without_identity(&object), &without_identity(theirs));
                object["metadata"]["uid"] = json!("u-1");
                live = Some(object);
            }
            Err(status) => {
                let (ours, theirs) = match expect.get("status") {
                    Some(theirs) => {
                        let mut ours = status.to_value();
                        for key in ["kind", "apiVersion", "metadata"] {
                            ours.as_object_mut().unwrap().remove(key);
                        }
                        (ours, theirs.clone())
                    }
                    None => (json!(status.message), expect["error"].clone()),
                };
                complain("refusal", &ours, &theirs);
            }
        }
    }
}

#[test]
fn every_step_comes_out_as_kubernetes_recorded_it() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("recorded.json")).unwrap();
    assert!(cases.len() >= 80, "{}", cases.len());
    let mut problems = Vec::new();
    for case in &cases {
        check(case, &mut problems);
    }
    assert!(problems.is_empty(), "{} differ:\n{}", problems.len(), problems.join("\n"));
}
