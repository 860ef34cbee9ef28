//! What the webhook fills in: when a patch was changed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The changes of a TrainJob that is created, or updated from `old`: operations of a JSON patch. A patch that is as it was
/// keeps its time, whatever the client says; one that is new or has changed gets the time of now, unless it is new and says one
/// itself.
pub fn train_job(job: &Value, old: Option<&Value>, now: Timestamp) -> Vec<Value> {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let before: BTreeMap<&str, &Value> = old
        .into_iter()
        .flat_map(patches)
        .filter_map(|patch| Some((manager(patch)?, patch)))
        .collect();
    let mut changes = Vec::new();
    for (index, patch) in patches(job).iter().enumerate() {
        if !patch.is_object() {
            continue;
        }
        let said = patch.get("time").filter(|time| !time.is_null());
        let time = match manager(patch).and_then(|manager| before.get(manager)) {
            Some(was) if without_time(was) == without_time(patch) => was.get("time").cloned(),
            Some(_) => Some(json!(now)),
            None if said.is_none() => Some(json!(now)),
            None => continue,
        };
        let path = format!("/spec/runtimePatches/{index}/time");
        match (time.filter(|time| !time.is_null()), said) {
            (Some(time), said) if said != Some(&time) => {
                changes.push(json!({"op": "add", "path": path, "value": time}));
            }
            (None, Some(_)) => changes.push(json!({"op": "remove", "path": path})),
            _ => {}
        }
    }
    changes
}

fn patches(job: &Value) -> &[Value] {
    let patches = job.pointer("/spec/runtimePatches").and_then(Value::as_array);
    patches.map(Vec::as_slice).unwrap_or_default()
}

fn manager(patch: &Value) -> Option<&str> {
    patch.get("manager")?.as_str()
}

fn without_time(patch: &Value) -> Value {
    let mut patch = patch.clone();
    if let Some(fields) = patch.as_object_mut() {
        fields.remove("time");
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(patches: Value) -> Value {
        json!({"spec": {"runtimePatches": patches}})
    }

    fn changes(new: Value, old: Option<Value>) -> Vec<Value> {
        let now: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
        train_job(&job(new), old.map(job).as_ref(), now)
    }

    const NOW: &str = "2026-01-02T03:04:05Z";
    const THEN: &str = "2025-01-01T00:00:00Z";

    fn set(time: &str) -> Vec<Value> {
        vec![json!({"op": "add", "path": "/spec/runtimePatches/0/time", "value": time})]
    }

    #[test]
    fn a_new_patch_has_its_own_time_or_now() {
        assert_eq!(changes(json!([{"manager": "a.b/c"}]), None), set(NOW));
        assert_eq!(changes(json!([{"manager": "a.b/c", "time": THEN}]), None), Vec::<Value>::new());
    }

    #[test]
    fn a_patch_that_is_as_it_was_keeps_its_time() {
        let old = json!([{"manager": "a.b/c", "time": THEN, "trainingRuntimeSpec": {}}]);
        let same = json!([{"manager": "a.b/c", "trainingRuntimeSpec": {}}]);
        assert_eq!(changes(same, Some(old.clone())), set(THEN));
        assert_eq!(changes(old.clone(), Some(old)), Vec::<Value>::new());
    }

    #[test]
    fn a_patch_that_changes_gets_now_whatever_the_client_says() {
        let old = json!([{"manager": "a.b/c", "time": THEN}]);
        let new = json!([{"manager": "a.b/c", "time": THEN, "trainingRuntimeSpec": {}}]);
        assert_eq!(changes(new, Some(old)), set(NOW));
    }
}
