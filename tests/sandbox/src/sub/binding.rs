//! `pods/binding`: a scheduler's decision.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::{Resource, Status};
use serde_json::{Value, json};

use crate::admit::Gvk;
use crate::api::{Api, Call};
use crate::store::Expect;
use crate::verb::{body, read, write};

const BINDING: Resource<'static> = Resource { group: "", plural: "pods/binding" };

/// Binds the pod to the node that the body names.
pub async fn bind(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let binding = body::parse(call)?;
    let given = meta::name(&binding);
    if !given.is_empty() && given != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let node = binding["target"]["name"].as_str().unwrap_or("");
    check(&binding, node)?;
    let kind = Gvk { group: "", version: "v1", kind: "Binding" };
    write::admit_body(api, call, kind, &binding).await?;
    loop {
        let live = read::live(api, call)?;
        refuse(call.name(), &binding, &live.value)?;
        let mut next = live.value.clone();
        next["spec"]["nodeName"] = json!(node);
        for part in ["labels", "annotations"] {
            if let Some(given) = binding["metadata"][part].as_object() {
                let target = meta::as_map(meta::edit(&mut next).entry(part).or_insert(Value::Null));
                given.iter().for_each(|(k, v)| {
                    target.insert(k.clone(), v.clone());
                });
            }
        }
        schedule(&mut next, &api.clock.stamp());
        if call.query.dry_run {
            break;
        }
        let key = (call.namespace().to_owned(), call.name().to_owned());
        if api.store.put("pods", key, Expect::Revision(live.revision), next).is_ok() {
            break;
        }
    }
    Ok(call.representation.value(201, &created()))
}

/// The answer to a request that made something without an object to show.
pub fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

fn check(binding: &Value, node: &str) -> Result<(), Status> {
    let mut errors = Vec::new();
    let kind = binding["target"]["kind"].as_str().unwrap_or("");
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::with_value(
            FieldErrorKind::NotSupported,
            "target.kind",
            &json!(kind),
            "supported values: \"Node\", \"<empty>\"",
        ));
    }
    if node.is_empty() {
        errors.push(FieldError::new(FieldErrorKind::Required, "target.name", ""));
    }
    // Upstream passes these on as bare errors, without a reason.
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match &texts[..] {
        [] => Ok(()),
        [one] => Err(Status::new(500, "", one.clone())),
        many => Err(Status::new(500, "", format!("[{}]", many.join(", ")))),
    }
}

fn refuse(name: &str, binding: &Value, pod: &Value) -> Result<(), Status> {
    let uid = meta::uid(binding);
    let bound = pod["spec"]["nodeName"].as_str().unwrap_or("");
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty());
    if !uid.is_empty() && uid != meta::uid(pod) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::namespace(pod),
            meta::uid(pod)
        );
        return Err(Status::conflict(Resource { group: "", plural: "pods" }, name, &why));
    }
    let why = if meta::is_terminating(pod) {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !bound.is_empty() {
        format!("pod {name} is already assigned to node {bound:?}")
    } else if gated {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Status::conflict(BINDING, name, &why))
}

fn schedule(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    let conditions = meta::field(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(list) = conditions else { return };
    match list.iter_mut().find(|c| c["type"] == json!("PodScheduled")) {
        Some(found) => *found = condition,
        None => list.push(condition),
    }
}
