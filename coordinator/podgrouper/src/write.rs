//! A draft meets the PodGroup that is there: what others say of it is kept, all else is the draft's.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::draft::Draft;
use crate::group::Action;
use crate::names;
use crate::object::Object;

/// What others say, and the grouper never does.
const KEPT: [&str; 3] = ["markUnschedulable", "schedulingBackoff", "queue"];

/// The PodGroup, whole, and what is done with it.
pub fn write(draft: &Draft, old: Option<&Object>, config: &Config) -> (Action, Value) {
    match old {
        None => (Action::Created, create(draft)),
        Some(old) => update(draft, old, config),
    }
}

fn create(draft: &Draft) -> Value {
    json!({
        "apiVersion": names::POD_GROUP_API,
        "kind": names::POD_GROUP,
        "metadata": {
            "name": draft.name,
            "namespace": draft.namespace,
            "labels": draft.labels,
            "annotations": draft.annotations,
            "ownerReferences": [draft.owner_json()],
        },
        "spec": draft.spec(),
    })
}

fn update(draft: &Draft, old: &Object, config: &Config) -> (Action, Value) {
    let empty = Map::new();
    let old_spec = old.raw().get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut spec = draft.spec();
    for key in KEPT {
        match old_spec.get(key).filter(|value| !value.is_null()) {
            Some(value) => drop(spec.insert(key.to_owned(), value.clone())),
            None => drop(spec.remove(key)),
        }
    }
    if draft.topology.topology.is_empty()
        && let Some(topology) = old_spec.get("topologyConstraint")
    {
        spec.insert("topologyConstraint".to_owned(), topology.clone());
    }
    let mut labels = draft.labels.clone();
    match old.label(&config.node_pool_label) {
        Some(pool) => drop(labels.insert(config.node_pool_label.clone(), pool.to_owned())),
        None => drop(labels.remove(&config.node_pool_label)),
    }
    if let Some(queue) = old.label(&config.queue_label) {
        labels.insert(config.queue_label.clone(), queue.to_owned());
    }
    let owners = json!([draft.owner_json()]);
    let (old_labels, old_annotations) = (old.labels(), old.annotations());
    if shape(old_spec) == shape(&spec)
        && old.raw().pointer("/metadata/ownerReferences") == Some(&owners)
        && says(&old_labels, &labels)
        && says(&old_annotations, &draft.annotations)
    {
        return (Action::Unchanged, old.raw().clone());
    }
    let mut metadata =
        old.raw().get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.insert("labels".to_owned(), merged(old_labels, labels));
    metadata.insert("annotations".to_owned(), merged(old_annotations, draft.annotations.clone()));
    metadata.insert("ownerReferences".to_owned(), owners);
    let mut body = old.raw().as_object().cloned().unwrap_or_default();
    body.insert("metadata".to_owned(), metadata.into());
    body.insert("spec".to_owned(), spec.into());
    (Action::Updated, body.into())
}

fn says(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> bool {
    new.iter().all(|(key, value)| old.get(key) == Some(value))
}

fn merged(mut old: BTreeMap<String, String>, new: BTreeMap<String, String>) -> Value {
    old.extend(new);
    json!(old)
}

/// A spec without what says nothing: nulls, empty texts, empty lists and empty objects.
fn shape(spec: &Map<String, Value>) -> Map<String, Value> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let inner = |value: &Value| match value {
        Value::Object(map) => shape(map).into(),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_object().map_or_else(|| item.clone(), |map| shape(map).into()))
            .collect(),
        other => other.clone(),
    };
    let pairs = spec.iter().map(|(key, value)| (key.clone(), inner(value)));
    pairs.filter(|(_, value)| !empty(value)).collect()
}
