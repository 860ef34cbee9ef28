//! What the CRD fills in, for objects that no API server has seen.
//!
//! A field that is missing or null gets its default; one that is there stays, empty texts included. A test compares
//! this with the CRD. Inside pods nothing is filled in.

use serde_json::{Map, Value, json};

use crate::shape::Shape;

/// Fills in the defaults of an object. What is not of the type that it should be is left alone.
pub fn fill(shape: Shape, object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    set(spec, "recoveryPolicy", json!("RoleRecreate"));
    match shape {
        Shape::Short => each(spec.get_mut("roles"), |role| set(role, "replicas", json!(1))),
        Shape::Kthena => kthena(spec),
    }
}

fn kthena(spec: &mut Map<String, Value>) {
    set(spec, "replicas", json!(1));
    set(spec, "schedulerName", json!("volcano"));
    each(spec.get_mut("plugins"), |plugin| set(plugin, "type", json!("BuiltIn")));
    if let Some(rollout) = map(spec, "rolloutStrategy") {
        set(rollout, "type", json!("ServingGroupRollingUpdate"));
        if let Some(limits) = map(rollout, "rollingUpdateConfiguration") {
            set(limits, "maxUnavailable", json!(1));
        }
    }
    let Some(template) = map(spec, "template") else { return };
    set(template, "restartGracePeriodSeconds", json!(0));
    if let Some(topology) = map(template, "networkTopology") {
        for policy in ["groupPolicy", "rolePolicy"] {
            if let Some(policy) = map(topology, policy) {
                set(policy, "mode", json!("hard"));
            }
        }
    }
    each(template.get_mut("roles"), |role| {
        set(role, "replicas", json!(1));
        set(role, "maxUnavailable", json!(1));
    });
}

fn set(object: &mut Map<String, Value>, key: &str, value: Value) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value);
    }
}

fn map<'a>(object: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

fn each(list: Option<&mut Value>, change: impl Fn(&mut Map<String, Value>)) {
    let items = list.and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(change);
}
