//! The change that a request asks for, and the object it makes of the live one.

use http::Method;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::apply::{self, Apply};
use muster_objects::patch::{self, PatchKind};
use muster_objects::status::Status;
use muster_objects::{meta, strategic};
use serde_json::{Value, json};

use super::settle::{keep_system_fields, reset};
use super::{body, write};
use crate::api::{Api, Call};
use crate::builtin;
use crate::represent;

/// The change that was asked for.
pub enum Change {
    /// The whole new object, without its type.
    Put(Value),
    /// A patch of this kind.
    Patch(PatchKind, Value),
}

/// Reads the asked change.
pub fn read(call: &Call) -> Result<Change, Status> {
    if call.method == Method::PUT {
        return Ok(Change::Put(body::object(call)?));
    }
    let kind = match call.content_type() {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" if call.kind.custom.is_none() => {
            PatchKind::Strategic
        }
        "application/apply-patch+yaml" => PatchKind::Apply,
        "application/strategic-merge-patch+json" => {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]));
        }
        _ => {
            let mut status =
                Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            status.details = Some(Box::default());
            return Err(status);
        }
    };
    if kind == PatchKind::Apply {
        apply_options(call)?;
        return Ok(Change::Patch(kind, body::yaml(&call.body)?));
    }
    if call.query.force.is_some() {
        let error = FieldError::new(
            FieldErrorKind::Forbidden,
            "force",
            "may not be specified for non-apply patch",
        );
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let value: Value = serde_json::from_slice(&call.body).map_err(|error| {
        let words = body::go_words(&call.body, &error);
        Status::bad_request(format!("error decoding patch: {words}"))
    })?;
    if kind != PatchKind::Json && !value.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            body::go_type(&value)
        )));
    }
    Ok(Change::Patch(kind, value))
}

fn apply_options(call: &Call) -> Result<(), Status> {
    if call.query.field_manager.len() > 128 {
        let error = FieldError::new(
            FieldErrorKind::TooLong,
            "fieldManager",
            "may not be more than 128 bytes",
        );
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    if call.query.field_manager.is_empty() {
        let error = FieldError::new(
            FieldErrorKind::Required,
            "fieldManager",
            "is required for apply patch",
        );
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    Ok(())
}

/// The new object as the client wants it: patched, cleaned, defaulted, with its managers.
pub fn compute(
    api: &Api,
    call: &Call,
    change: &Change,
    old: &Value,
) -> Result<(Value, Vec<String>), Status> {
    let kind = &*call.kind;
    let (given, mode) = match change {
        Change::Put(value) => (value.clone(), call.query.field_validation.as_str()),
        Change::Patch(PatchKind::Apply, config) => {
            return apply_config(api, call, Some(old), config);
        }
        Change::Patch(how, patch) => {
            let live = represent::typed(kind, old);
            let mut patched = match how {
                PatchKind::Json => patch::json_patch(&live, patch)?,
                PatchKind::Merge => patch::merge_patch(live, patch),
                _ => strategic::strategic(&live, patch, &kind.shape)?,
            };
            body::take_type(kind, &mut patched)?;
            (patched, call.query.field_validation.as_str())
        }
    };
    let (mut new, mut unknown) = body::shape_up(kind, given)?;
    if matches!(change, Change::Put(_)) {
        unknown.splice(0..0, body::duplicates(call));
    }
    let warnings = body::judge_unknown(kind, mode, unknown)?;
    keep_system_fields(kind, &mut new, old);
    write::track(api, call, Some(old), &mut new);
    if kind.custom.is_some() && call.path.subresource == "scale" {
        forget_scale_time(&mut new);
    }
    // Upstream records who wrote what before it puts back what this endpoint may not write.
    reset(kind, &call.path.subresource, &mut new, old);
    Ok((new, warnings))
}

/// Upstream maps the managed fields of a custom resource through its Scale and loses the time.
fn forget_scale_time(object: &mut Value) {
    let entries = meta::edit(object).get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in
        entries.into_iter().flatten().filter(|entry| entry["subresource"] == json!("scale"))
    {
        meta::as_map(entry).remove("time");
    }
}

/// Server-side apply: merges the configuration into the live object.
pub fn apply_config(
    api: &Api,
    call: &Call,
    old: Option<&Value>,
    config: &Value,
) -> Result<(Value, Vec<String>), Status> {
    let kind = &*call.kind;
    let unknown = match &kind.custom {
        Some(custom) => body::prune(custom, &mut config.clone()),
        None => builtin::decode(&kind.group, &kind.kind, config.clone())
            .map(|(_, unknown)| unknown)
            .unwrap_or_default(),
    };
    let mode = call.query.field_validation.as_str();
    let warnings = body::judge_unknown(kind, mode, unknown)?;
    let subresource = &call.path.subresource;
    let viewed = old.map(|old| represent::typed(kind, old));
    let now = api.clock.stamp();
    let merged = apply::apply(Apply {
        live: viewed.as_ref(),
        config,
        manager: &call.query.field_manager,
        force: call.query.force.unwrap_or(false),
        subresource,
        api_version: &kind.api_version(),
        kind: &kind.kind,
        now: &now,
        shape: &kind.shape,
        reset: &write::reset_of(kind, &call.path.subresource),
    })?;
    let mut merged = merged;
    body::take_type(kind, &mut merged)?;
    let (mut new, _) = body::shape_up(kind, merged)?;
    if let Some(old) = old {
        keep_system_fields(kind, &mut new, old);
        reset(kind, subresource, &mut new, old);
    }
    Ok((new, warnings))
}
