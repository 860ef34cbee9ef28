//! `scale`: the replicas of an object, as an `autoscaling/v1` Scale.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::patch::{self, PatchKind};
use muster_objects::status::Status;
use serde_json::{Value, json};

use crate::api::{Api, Call};
use crate::kinds::{Kind, Scale};
use crate::verb::{body, read};
use crate::verb::{change::Change, update};

/// Reads the scale.
pub fn read(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let live = read::live(api, call)?;
    Ok(call.representation.value(200, &scale_of(&call.kind, &live.value)))
}

/// Writes the wanted replicas.
pub async fn write(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let live = read::live(api, call)?;
    let current = scale_of(&call.kind, &live.value);
    let wanted = match (&call.method, call.content_type()) {
        (&Method::PUT, _) => body::parse(call)?,
        (_, "application/json-patch+json") => {
            patch::json_patch(&current, &body::json(&call.body)?)?
        }
        (_, "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
            patch::merge_patch(current, &body::json(&call.body)?)
        }
        (_, "application/apply-patch+yaml") => {
            patch::merge_patch(current, &body::yaml(&call.body)?)
        }
        _ => {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]));
        }
    };
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 && call.kind.custom.is_none() {
        let error = FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.replicas",
            &json!(replicas),
            "must be greater than or equal to 0",
        );
        return Err(Status::invalid("autoscaling", "Scale", call.name(), &[error]));
    }
    let revision = meta::text(&wanted, "resourceVersion");
    if call.method == Method::PUT && !revision.is_empty() && revision != live.revision.to_string() {
        return Err(Status::stale(call.kind.name(), call.name()));
    }
    let Some(scale) = &call.kind.scale else { return Err(Status::no_route()) };
    let mut change = nested(&scale.spec_replicas, json!(replicas));
    if !revision.is_empty() && call.method == Method::PUT {
        change["metadata"] = json!({"resourceVersion": revision});
    }
    let done = update::perform(api, call, &Change::Patch(PatchKind::Merge, change)).await?;
    Ok(call.representation.value(200, &scale_of(&call.kind, &done.object.value)))
}

fn scale_of(kind: &Kind, object: &Value) -> Value {
    let Some(scale) = &kind.scale else { return Value::Null };
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut spec = json!({});
    if number(&scale.spec_replicas) != 0 {
        spec["replicas"] = json!(number(&scale.spec_replicas));
    }
    let mut status = json!({"replicas": number(&scale.status_replicas)});
    let selector = selector(scale, object);
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let mut metadata = json!({
        "name": meta::name(object),
        "namespace": meta::namespace(object),
        "uid": meta::uid(object),
        "resourceVersion": meta::text(object, "resourceVersion"),
        "creationTimestamp": meta::text(object, "creationTimestamp"),
    });
    if !kind.namespaced {
        meta::as_map(&mut metadata).remove("namespace");
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn selector(scale: &Scale, object: &Value) -> String {
    let Some(found) = scale.selector.as_deref().and_then(|path| at(object, path)) else {
        return String::new();
    };
    match found {
        Value::String(text) => text.clone(),
        other => pairs(other.get("matchLabels").unwrap_or(other)),
    }
}

fn pairs(labels: &Value) -> String {
    let all = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        all.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.join(",")
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(&format!("/{}", path.trim_start_matches('.').replace('.', "/")))
}

fn nested(path: &str, value: Value) -> Value {
    let fields = path.split('.').filter(|f| !f.is_empty()).rev();
    fields.fold(value, |inner, field| json!({ field: inner }))
}

/// What is wrong with the numbers that the scale of a custom resource reads. Fields are named by path.
pub fn errors(scale: &Scale, object: &Value) -> Vec<FieldError> {
    let invalid = |path: &str, value: Value, detail: String| {
        FieldError::with_value(FieldErrorKind::Invalid, path, &value, detail)
    };
    let check = |path: &String| {
        let found = at(object, path)?;
        match found.as_i64() {
            None => Some(invalid(
                path,
                json!(0),
                format!(
                    "{path} accessor error: {} is of the type {}, expected int64",
                    found.as_str().map_or_else(|| found.to_string(), str::to_owned),
                    go_type(found)
                ),
            )),
            Some(n) if n < 0 => {
                Some(invalid(path, json!(n), "should be a non-negative integer".to_owned()))
            }
            Some(n) if n > i64::from(i32::MAX) => Some(invalid(
                path,
                json!(n),
                format!("should be less than or equal to {}", i32::MAX),
            )),
            Some(_) => None,
        }
    };
    [&scale.spec_replicas, &scale.status_replicas].into_iter().filter_map(check).collect()
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Null => "<nil>",
    }
}
