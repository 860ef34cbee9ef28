//! Whether a server-side apply would change anything: what is wanted is there, and we own nothing that is not wanted.
//!
//! What we own is in the object's `managedFields`, so that this needs no memory and holds after a restart too. In doubt the
//! answer is no: an apply that changes nothing costs a request and no more.

use serde_json::{Map, Value};

/// Whether the fields that `manager` applied to `live` are those of `wanted`, with its values.
pub fn is_applied(wanted: &Value, live: &Value, manager: &str) -> bool {
    let Some(owned) = owned(live, manager) else { return false };
    holds(wanted, live, Some(owned)) && covers(owned, wanted)
}

/// The fields that a manager has applied.
fn owned<'a>(live: &'a Value, manager: &str) -> Option<&'a Map<String, Value>> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let applied = |entry: &&Value| {
        entry["manager"] == manager
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    entries.iter().find(applied)?.get("fieldsV1")?.as_object()
}

/// Whether all that is wanted is there. `owned` says how lists are put together: by keys, as sets, or as one value.
fn holds(wanted: &Value, live: &Value, owned: Option<&Map<String, Value>>) -> bool {
    let owned = owned.filter(|fields| !fields.is_empty());
    match (wanted, live, owned) {
        (Value::Object(wanted), Value::Object(live), Some(owned)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                None => wanted.is_null(),
                Some(live) => {
                    let owned = owned.get(&format!("f:{key}")).and_then(Value::as_object);
                    holds(wanted, live, owned)
                }
            })
        }
        (Value::Array(wanted), Value::Array(live), Some(owned)) => {
            wanted.iter().all(|wanted| item_holds(wanted, live, owned))
        }
        _ => wanted == live,
    }
}

fn item_holds(wanted: &Value, live: &[Value], owned: &Map<String, Value>) -> bool {
    owned.iter().any(|(key, fields)| {
        if let Some(keys) = keys_of(key) {
            let there = live.iter().find(|live| matches(live, &keys, false));
            return matches(wanted, &keys, true)
                && there.is_some_and(|live| holds(wanted, live, fields.as_object()));
        }
        value_of(key).is_some_and(|value| value == *wanted && live.contains(&value))
    })
}

/// Whether all that is owned is wanted.
fn covers(owned: &Map<String, Value>, wanted: &Value) -> bool {
    owned.iter().filter(|(key, _)| *key != ".").all(|(key, fields)| {
        let found = if let Some(name) = key.strip_prefix("f:") {
            wanted.get(name)
        } else if let Some(keys) = keys_of(key) {
            wanted.as_array().and_then(|items| items.iter().find(|item| matches(item, &keys, true)))
        } else if let Some(value) = value_of(key) {
            wanted.as_array().and_then(|items| items.iter().find(|item| **item == value))
        } else {
            None
        };
        let fields = fields.as_object();
        found.is_some_and(|found| fields.is_none_or(|fields| covers(fields, found)))
    })
}

/// The keys of an item of a list: `k:{"name":"a"}`.
fn keys_of(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// An item of a set: `v:"a"`.
fn value_of(key: &str) -> Option<Value> {
    serde_json::from_str(key.strip_prefix("v:")?).ok()
}

/// Whether an item has these keys. In what is wanted a key may be left to its default.
fn matches(item: &Value, keys: &Map<String, Value>, may_lack: bool) -> bool {
    keys.iter().all(|(key, value)| match item.get(key) {
        Some(there) => there == value,
        None => may_lack,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "labels": {"l": "1"}},
            "spec": {"size": 2, "tags": ["x"], "whole": [{"a": 1}],
                "items": [{"name": "one", "value": "1", "ports": [{"port": 80}]}]}})
    }

    fn live() -> Value {
        let mut live = wanted();
        live["metadata"]["uid"] = json!("u");
        live["spec"]["defaulted"] = json!(true);
        live["spec"]["items"][0]["ports"][0]["protocol"] = json!("TCP");
        live["spec"]["items"][0]["more"] = json!("defaulted");
        live["metadata"]["managedFields"] = json!([
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:other": {}}}},
            {"manager": "trainer", "operation": "Apply", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:l": {}}},
                "f:spec": {"f:size": {}, "f:tags": {".": {}, "v:\"x\"": {}}, "f:whole": {},
                    "f:items": {"k:{\"name\":\"one\"}": {".": {}, "f:name": {}, "f:value": {},
                        "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}}}},
        ]);
        live
    }

    #[track_caller]
    fn differs(change: impl FnOnce(&mut Value, &mut Value)) {
        let (mut wanted, mut live) = (wanted(), live());
        change(&mut wanted, &mut live);
        assert!(!is_applied(&wanted, &live, "trainer"), "{wanted} {live}");
    }

    #[test]
    fn what_was_applied_is_the_same_whatever_the_server_and_others_have_added() {
        assert!(is_applied(&wanted(), &live(), "trainer"));
        assert!(!is_applied(&wanted(), &live(), "another"), "who owns nothing has applied nothing");
    }

    #[test]
    fn a_value_that_is_missing_or_another_differs() {
        differs(|wanted, _| wanted["spec"]["size"] = json!(3));
        differs(|wanted, _| wanted["spec"]["new"] = json!(3));
        differs(|_, live| live["spec"]["size"] = json!(3));
        differs(|_, live| live["spec"]["tags"] = json!([]));
        differs(|_, live| live["spec"]["items"] = json!([]));
        differs(|_, live| live["spec"]["items"][0]["value"] = json!("2"));
        differs(|_, live| live["spec"]["whole"][0]["a"] = json!(2));
        differs(|wanted, _| wanted["spec"]["items"][0]["ports"][0]["port"] = json!(81));
    }

    #[test]
    fn what_is_owned_and_no_longer_wanted_differs() {
        differs(|wanted, _| wanted["spec"]["tags"] = json!([]));
        differs(|wanted, _| wanted["spec"]["items"] = json!([]));
        differs(|wanted, _| wanted["spec"]["whole"] = json!([]));
        differs(|wanted, _| {
            wanted["metadata"].as_object_mut().unwrap().remove("labels");
        });
        differs(|wanted, _| {
            wanted["spec"]["items"][0].as_object_mut().unwrap().remove("value");
        });
    }
}
