//! RuntimeClass: a pod gets the overhead, the node selector and the tolerations of the class that it names.

use std::collections::BTreeMap;

use muster_kube::quantity::Quantity;
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Map, Value, json};

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct RuntimeClass;

const CLASSES: &str = "runtimeclasses.node.k8s.io";
const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl Plugin for RuntimeClass {
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        if !concerns(attempt) {
            return Ok(());
        }
        let Some(mut pod) = attempt.object.take() else { return Ok(()) };
        let done = class_of(attempt, &pod, store).and_then(|class| match class {
            Some(class) => apply(attempt, &mut pod, &class),
            None => Ok(()),
        });
        attempt.object = Some(pod);
        done
    }

    fn validate(&self, attempt: &Attempt<'_>, store: &Store) -> Result<(), Status> {
        let Some(pod) = attempt.object.as_ref().filter(|_| concerns(attempt)) else {
            return Ok(());
        };
        let class = class_of(attempt, pod, store)?;
        let overhead = class.as_ref().map(|class| &class["overhead"]);
        let given = &pod["spec"]["overhead"];
        match overhead.filter(|overhead| !overhead.is_null()) {
            Some(overhead) if !same_amounts(&overhead["podFixed"], given) => {
                Err(attempt.forbid(OTHER_OVERHEAD))
            }
            None if !given.is_null() => Err(attempt.forbid(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }
}

fn concerns(attempt: &Attempt<'_>) -> bool {
    attempt.is("", "pods") && attempt.operation == Operation::Create
}

/// The class that the pod names, if it names one.
fn class_of(attempt: &Attempt<'_>, pod: &Value, store: &Store) -> Result<Option<Value>, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    match store.get(CLASSES, "", name) {
        Some(class) => Ok(Some(class.value.clone())),
        None => {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            Err(attempt.forbid_object(pod, &why))
        }
    }
}

fn apply(attempt: &Attempt<'_>, pod: &mut Value, class: &Value) -> Result<(), Status> {
    let overhead = &class["overhead"];
    if !overhead.is_null() {
        let fixed = &overhead["podFixed"];
        let given = &pod["spec"]["overhead"];
        let says_so = given.as_object().is_some_and(|given| !given.is_empty());
        if says_so && !same_amounts(fixed, given) {
            return Err(attempt.forbid_object(pod, OTHER_OVERHEAD));
        }
        let spec = meta::field(pod, "spec");
        match fixed.as_object().filter(|fixed| !fixed.is_empty()) {
            Some(fixed) => spec.insert("overhead".into(), json!(fixed)),
            None => spec.remove("overhead"),
        };
    }
    let scheduling = &class["scheduling"];
    if scheduling.is_null() {
        return Ok(());
    }
    let selector = merged_selector(&pod["spec"]["nodeSelector"], &scheduling["nodeSelector"])
        .map_err(|why| attempt.forbid_object(pod, &why))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut all = list(&pod["spec"]["tolerations"]);
    all.extend(list(&scheduling["tolerations"]));
    let spec = meta::field(pod, "spec");
    if !selector.is_empty() {
        spec.insert("nodeSelector".into(), json!(selector));
    }
    let tolerations = merged_tolerations(&all);
    if !tolerations.is_empty() {
        spec.insert("tolerations".into(), json!(tolerations));
    }
    Ok(())
}

fn same_amounts(one: &Value, other: &Value) -> bool {
    let read = |amounts: &Value| -> BTreeMap<String, Option<Quantity>> {
        let amounts = amounts.as_object().into_iter().flatten();
        let parse = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        amounts.map(|(name, value)| (name.clone(), parse(value))).collect()
    };
    read(one) == read(other)
}

/// The pod's selector and that of the class, which must not contradict each other.
fn merged_selector(pod: &Value, class: &Value) -> Result<Map<String, Value>, String> {
    let mut merged = pod.as_object().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (key, value) in class.as_object().into_iter().flatten() {
        if let Some(given) = merged.get(key).filter(|given| *given != value) {
            let (value, given) = (text(value), text(given));
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            ));
        }
        merged.insert(key.clone(), value.clone());
    }
    Ok(merged)
}

/// The tolerations in their order, without those that another one covers. Of equal ones the first stays.
fn merged_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let before = merged.iter().any(|kept| covers(kept, toleration));
        let after = all[at + 1..].iter().any(|next| next != toleration && covers(next, toleration));
        if !before && !after {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    fn text<'a>(toleration: &'a Value, field: &str) -> &'a str {
        toleration[field].as_str().unwrap_or_default()
    }
    if wide == narrow {
        return true;
    }
    let exists = text(wide, "operator") == "Exists";
    let any_key = text(wide, "key").is_empty() && exists;
    if text(narrow, "key") != text(wide, "key") && !any_key {
        return false;
    }
    let effect = text(wide, "effect");
    if text(narrow, "effect") != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
    if effect == "NoExecute"
        && let Some(wide) = seconds(wide)
        && seconds(narrow).is_none_or(|narrow| narrow > wide)
    {
        return false;
    }
    // Only a toleration that says `Equal` is compared by its value, as upstream has it.
    exists || text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value")
}
