//! What a CustomResourceDefinition does to the server: routes come, routes go, instances go with them.

use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use muster_objects::schema::crd as rules;
use muster_objects::status::FieldError;
use serde_json::{Value, json};

use crate::api::Api;
use crate::kinds;
use crate::store::{Expect, Object};
use crate::verb::delete;

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
        "storedVersions": stored.into_iter().collect::<Vec<_>>(),
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

/// After a definition was written: serve it, and say so in its status.
pub fn written(api: &Arc<Api>, crd: &Value) {
    if meta::is_terminating(crd) {
        return;
    }
    match kinds::from_crd(crd) {
        Ok(kinds) => {
            let (group, plural) = names(crd);
            api.kinds.replace(&group, &plural, kinds);
            establish(api, meta::name(crd));
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

/// Sets accepted names and the conditions, unless they stand already.
fn establish(api: &Api, name: &str) {
    let Some(live) = api.store.get(RESOURCE, "", name) else { return };
    let mut next = live.value.clone();
    next["status"]["acceptedNames"] = next["spec"]["names"].clone();
    let now = api.clock.stamp();
    set_condition(&mut next, &now, "NamesAccepted", "NoConflicts", "no conflicts found");
    set_condition(
        &mut next,
        &now,
        "Established",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    );
    if next != live.value {
        // A race means that the definition was written again: that write establishes it.
        let _raced = api.store.put(
            RESOURCE,
            (String::new(), name.to_owned()),
            Expect::Revision(live.revision),
            next,
        );
    }
}

fn set_condition(crd: &mut Value, now: &str, type_: &str, reason: &str, message: &str) {
    let conditions = &mut crd["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return };
    let wanted = json!({
        "type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match list.iter_mut().find(|c| c["type"] == json!(type_)) {
        Some(found) if found["status"] == json!("True") => {}
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
    set_condition(
        crd,
        now,
        "Terminating",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
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
        api.kinds.replace(&group, &plural, Vec::new());
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
