//! What a CustomResourceDefinition does to the server: routes come, routes go, instances go with them.

use std::sync::Arc;
use std::time::Duration;

use muster_kube::FieldError;
use muster_objects::managed::{self, Reset};
use muster_objects::meta;
use muster_objects::schema::crd as rules;
use muster_objects::shape::Shape;
use serde_json::{Value, json};

use crate::api::Api;
use crate::kinds;
use crate::store::{Expect, Object};
use crate::verb::delete;

mod naming;

use naming::NamesVerdict;

/// Table of the definitions in the store.
pub const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The status that a new definition starts with.
pub fn prepare_create(crd: &mut Value) {
    meta::edit(crd).insert("generation".into(), json!(1));
    let stored = storage_version(crd);
    crd["status"] = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored.map(|version| [version]),
    });
}

/// Keeps generation and stored versions right.
pub fn prepare_update(new: &mut Value, old: &Value) {
    if new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        meta::edit(new).insert("generation".into(), json!(generation));
    }
    let Some(stored) = storage_version(new) else { return };
    let list = meta::field(new, "status").entry("storedVersions").or_insert_with(|| json!([]));
    if let Value::Array(list) = list
        && !list.contains(&json!(stored))
    {
        list.push(json!(stored));
    }
}

fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|v| v["storage"] == json!(true))?;
    stored["name"].as_str().map(str::to_owned)
}

/// What is wrong with a definition.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match old {
        None => rules::validate_crd(crd),
        Some(old) => {
            let established = condition(&old["status"], "Established") == Some("True");
            rules::validate_crd_update(crd, old, established)
        }
    }
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a str> {
    let list = status["conditions"].as_array()?;
    list.iter().find(|c| c["type"] == json!(type_))?["status"].as_str()
}

/// After a definition was written: settle its names and serve it, if they are its own.
///
/// Writers come here in any order, so the definition is read anew under a lock: the last one to come
/// serves the newest state, and one that has gone meanwhile is not served again.
pub fn written(api: &Arc<Api>, crd: &Value) {
    let _one_at_a_time = api.definitions.lock();
    if !establish(api, meta::name(crd)) {
        return;
    }
    let Some(live) = api.store.get(RESOURCE, "", meta::name(crd)) else { return };
    let crd = &live.value;
    if meta::is_terminating(crd) {
        return;
    }
    let (group, plural) = names(crd);
    let hosted = api.hosted.contains(&format!("{plural}.{group}"));
    match kinds::from_crd(crd, api.store.revision(), hosted) {
        Ok(kinds) => {
            api.kinds.replace(&group, &plural, kinds);
        }
        Err(errors) => {
            // Validation let it pass, so this is a gap of ours: say it loudly.
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            tracing::error!(crd = meta::name(crd), ?errors, "schema cannot be compiled");
        }
    }
}

/// Serves every definition in the store: after a start from a kept store.
pub fn serve_all(api: &Arc<Api>) {
    for crd in api.store.list(RESOURCE, None) {
        written(api, &crd.value);
    }
}

fn names(crd: &Value) -> (String, String) {
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]))
}

/// Sets accepted names and the conditions, unless they stand already. Whether it is established.
fn establish(api: &Api, name: &str) -> bool {
    let Some(live) = api.store.get(RESOURCE, "", name) else { return false };
    if meta::is_terminating(&live.value) {
        return false;
    }
    let mut next = live.value.clone();
    let others = api.store.list(RESOURCE, None);
    let NamesVerdict { names, conflict } = naming::decide(&next, others.iter().map(|o| &o.value));
    next["status"]["acceptedNames"] = names;
    let now = api.clock.stamp();
    let held = condition(&next["status"], "Established") == Some("True");
    match &conflict {
        None => {
            set_condition(
                &mut next,
                &now,
                ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            );
            let words = "the initial names have been accepted";
            set_condition(&mut next, &now, ["Established", "True", "InitialNamesAccepted", words]);
        }
        Some((reason, message)) => {
            set_condition(&mut next, &now, ["NamesAccepted", "False", reason, message]);
            if !held {
                let words = "not all names are accepted";
                set_condition(&mut next, &now, ["Established", "False", "NotAccepted", words]);
            }
        }
    }
    if next != live.value {
        let shape = Shape::builtin("apiextensions.k8s.io", "CustomResourceDefinition");
        let reset = Reset::of("apiextensions.k8s.io", "CustomResourceDefinition", "status", true);
        managed::track_update(
            Some(&live.value),
            &mut next,
            "kube-apiserver",
            "status",
            "apiextensions.k8s.io/v1",
            &now,
            &shape,
            &reset,
        );
        // A race means that the definition was written again: that write establishes it.
        let key = (String::new(), name.to_owned());
        let _raced = api.store.put(RESOURCE, key, Expect::Revision(live.revision), next);
    }
    held || conflict.is_none()
}

/// Sets a condition: type, status, reason, message. The time of transition moves with the status.
fn set_condition(crd: &mut Value, now: &str, [type_, status, reason, message]: [&str; 4]) {
    let conditions = &mut crd["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return };
    let wanted = json!({
        "type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match list.iter_mut().find(|c| c["type"] == json!(type_)) {
        Some(found) if found["status"] == json!(status) => {}
        Some(found) => *found = wanted,
        None => list.push(wanted),
    }
}

/// The first step of a deletion: the server's own finalizer and a condition.
pub fn begin_deletion(crd: &mut Value, now: &str) {
    if meta::is_terminating(crd) {
        return;
    }
    let metadata = meta::edit(crd);
    metadata.insert("deletionTimestamp".into(), json!(now));
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = finalizers
        && !list.contains(&json!(CLEANUP))
    {
        list.push(json!(CLEANUP));
    }
    let words =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(crd, now, ["Terminating", "True", "InstanceDeletionPending", words]);
}

/// After a deletion began: removes the instances, then the finalizer, then the routes.
pub fn terminating(api: &Arc<Api>, crd: &Value) {
    let (api, crd) = (api.clone(), crd.clone());
    tokio::spawn(async move {
        let (group, plural) = names(&crd);
        let resource = format!("{plural}.{group}");
        loop {
            let instances = api.store.list(&resource, None);
            if instances.is_empty() {
                break;
            }
            let Some(kind) = api.kinds.now().all().find(|k| k.resource == resource).cloned() else {
                break;
            };
            for instance in instances {
                let going = meta::is_terminating(&instance.value);
                if !going || meta::finalizers(&instance.value).is_empty() {
                    delete::purge(&api, &kind, instance);
                }
            }
            tokio::select! {
                () = api.stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
        {
            let _one_at_a_time = api.definitions.lock();
            api.kinds.replace(&group, &plural, Vec::new());
        }
        while let Some(live) = api.store.get(RESOURCE, "", meta::name(&crd)) {
            if release(&api, &live) {
                break;
            }
        }
    });
}

/// Takes the finalizer off, and the definition away if it was the last.
fn release(api: &Api, live: &Object) -> bool {
    let mut next = live.value.clone();
    let others: Vec<Value> =
        meta::finalizers(&next).into_iter().filter(|f| *f != CLEANUP).map(|f| json!(f)).collect();
    let key = (String::new(), meta::name(&next).to_owned());
    let expect = Expect::Revision(live.revision);
    if others.is_empty() {
        meta::edit(&mut next).remove("finalizers");
        return api.store.remove(RESOURCE, &key, expect, next).is_ok();
    }
    meta::edit(&mut next).insert("finalizers".into(), Value::Array(others));
    api.store.put(RESOURCE, key, expect, next).is_ok()
}
