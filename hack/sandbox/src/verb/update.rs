//! PUT and PATCH, on the object or on its status: compute, check, write; again if somebody was faster.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use muster_objects::apply::{self, Apply};
use muster_objects::patch::{self, PatchKind};
use muster_objects::status::{FieldError, FieldErrorKind, Status};
use muster_objects::{meta, strategic};
use serde_json::{Value, json};

use super::create::{self, Fresh};
use super::{body, write};
use crate::admit::Operation;
use crate::api::{Api, Call};
use crate::builtin;
use crate::kinds::Kind;
use crate::represent;
use crate::store::{Expect, Object};
use crate::{control, crd};

/// How often a write that names no revision is tried again when others are faster. Each time somebody
/// else got on, so this is a bound for pathological cases only.
const TRIES: usize = 1000;

/// The change that was asked for.
pub enum Change {
    /// The whole new object, without its type.
    Put(Value),
    /// A patch.
    Patch(PatchKind, Value),
}

/// What came of it.
pub struct Updated {
    /// The object now.
    pub object: Arc<Object>,
    /// 200, or 201 if it was made.
    pub code: u16,
    /// What the client should be warned of.
    pub warnings: Vec<String>,
}

/// Updates from the request's body.
pub async fn update(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let change = change(call)?;
    let done = perform(api, call, &change).await?;
    let mut response =
        call.representation.object(done.code, &call.kind, &done.object, &call.query.include_object);
    represent::warn(&mut response, &done.warnings);
    Ok(response)
}

/// Reads the asked change.
fn change(call: &Call) -> Result<Change, Status> {
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

/// Carries out a change, trying again while others are faster.
pub async fn perform(api: &Arc<Api>, call: &Call, change: &Change) -> Result<Updated, Status> {
    for _ in 0..TRIES {
        let live = api.store.get(&call.kind.resource, call.namespace(), call.name());
        let outcome = match live {
            Some(live) => once(api, call, change, live).await?,
            None => absent(api, call, change).await?,
        };
        if let Some(updated) = outcome {
            return Ok(updated);
        }
    }
    Err(Status::stale(call.kind.name(), call.name()))
}

/// The object does not exist: apply creates it, and for some kinds PUT does.
async fn absent(api: &Arc<Api>, call: &Call, change: &Change) -> Result<Option<Updated>, Status> {
    let kind = &*call.kind;
    let main = call.path.subresource.is_empty();
    let fresh = match change {
        Change::Patch(PatchKind::Apply, config) if main => {
            let (object, warnings) = apply_config(api, call, None, config)?;
            Fresh { object, warnings, managed: true }
        }
        Change::Put(value)
            if main
                && builtin::create_on_update(&kind.group, &kind.kind)
                && kind.custom.is_none() =>
        {
            let (object, unknown) = body::shape_up(kind, value.clone())?;
            let warnings = body::judge_unknown(kind, &call.query.field_validation, unknown)?;
            Fresh { object, warnings, managed: false }
        }
        _ => return Err(Status::not_found(kind.name(), call.name())),
    };
    same_name(call, &fresh.object)?;
    match create::insert(api, call, fresh).await {
        Ok((object, warnings)) => Ok(Some(Updated { object, code: 201, warnings })),
        // Somebody else made it meanwhile: look again.
        Err(status) if status.reason == "AlreadyExists" => Ok(None),
        Err(status) => Err(status),
    }
}

/// One attempt on an existing object. `None`: it moved on meanwhile, try again.
async fn once(
    api: &Arc<Api>,
    call: &Call,
    change: &Change,
    live: Arc<Object>,
) -> Result<Option<Updated>, Status> {
    let kind = &*call.kind;
    // An object from before the present schema is read with the schema's defaults.
    let viewed = (kind.custom.is_some() && !represent::is_verbatim(kind, &live))
        .then(|| represent::viewed(kind, &live.value));
    let old = viewed.as_ref().unwrap_or(&live.value);
    let (mut new, mut warnings) = compute(api, call, change, old)?;
    same_name(call, &new)?;
    let asked_revision = meta::text(&new, "resourceVersion").to_owned();
    if asked_revision.is_empty() && !unconditional(kind) && matches!(change, Change::Put(_)) {
        let error = FieldError {
            kind: FieldErrorKind::Invalid,
            field: "metadata.resourceVersion".into(),
            value: Some("0".into()),
            detail: "must be specified for an update".into(),
        };
        return Err(Status::invalid(&kind.group, &kind.plural, call.name(), &[error]));
    }
    let uid = meta::uid(&new);
    if matches!(change, Change::Put(_)) && !uid.is_empty() && uid != meta::uid(old) {
        return Err(Status::conflict(
            kind.name(),
            call.name(),
            &format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                storage_key(call),
                meta::uid(old)
            ),
        ));
    }
    if !asked_revision.is_empty() && asked_revision != meta::text(old, "resourceVersion") {
        return Err(Status::stale(kind.name(), call.name()));
    }
    let (changed, more) =
        write::mutate(api, call, Operation::Update, call.name(), new, Some(old)).await?;
    new = changed;
    warnings.extend(more);
    settle(kind, &call.path.subresource, &mut new, old);
    if same(&new, old) {
        return Ok(Some(Updated { object: live, code: 200, warnings }));
    }
    write::validate_update(kind, &call.path.subresource, &new, old)?;
    let (reviewed, more) =
        write::review(api, call, Operation::Update, call.name(), Some(new), Some(old)).await?;
    new = reviewed;
    warnings.extend(more);
    if call.query.dry_run {
        return Ok(Some(Updated { object: Arc::new(Object::unstored(new)), code: 200, warnings }));
    }
    let key = write::key(kind, call, call.name());
    let expect = Expect::Revision(live.revision);
    let gone = meta::is_terminating(&new)
        && meta::finalizers(&new).is_empty()
        && !awaits_kubelet(kind, &new)
        && !namespace_held(kind, &new);
    let done = if gone {
        // The answer shows the object as it went, with the revision it had.
        let answer = Arc::new(Object::unstored(new.clone()));
        api.store.remove(&kind.resource, &key, expect, old.clone()).map(|_| answer)
    } else {
        api.store.put(&kind.resource, key, expect, new)
    };
    match done {
        Ok(object) => {
            write::written(api, kind, &object.value);
            Ok(Some(Updated { object, code: 200, warnings }))
        }
        Err(_) if asked_revision.is_empty() || !matches!(change, Change::Put(_)) => Ok(None),
        Err(_) => Err(Status::stale(kind.name(), call.name())),
    }
}

/// The new object as the client wants it: patched, cleaned, defaulted, with its managers.
fn compute(
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
fn apply_config(
    api: &Api,
    call: &Call,
    old: Option<&Value>,
    config: &Value,
) -> Result<(Value, Vec<String>), Status> {
    let kind = &*call.kind;
    let unknown = match &kind.custom {
        Some(custom) => {
            let unknown = custom.schema.prune(&mut config.clone());
            unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect()
        }
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

/// Restores what this endpoint may not write.
fn reset(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    if subresource == "status" {
        if kind.custom.is_some() {
            let status = new.get("status").cloned();
            let mut kept = old.clone();
            let metadata = meta::edit(new);
            for field in ["managedFields", "resourceVersion"] {
                match metadata.remove(field) {
                    Some(value) => meta::edit(&mut kept).insert(field.into(), value),
                    None => meta::edit(&mut kept).remove(field),
                };
            }
            match status {
                Some(status) => meta::as_map(&mut kept).insert("status".into(), status),
                None => meta::as_map(&mut kept).remove("status"),
            };
            *new = kept;
        } else {
            builtin::prepare_status(&kind.group, &kind.kind, new, old);
        }
    } else if kind.status {
        match old.get("status") {
            Some(status) if new.get("status") == Some(status) => None,
            Some(status) => meta::as_map(new).insert("status".into(), status.clone()),
            None => meta::as_map(new).remove("status"),
        };
    }
}

/// What only the server writes comes from the live object.
fn keep_system_fields(kind: &Kind, new: &mut Value, old: &Value) {
    let metadata = meta::edit(new);
    if kind.namespaced {
        metadata.entry("namespace").or_insert_with(|| old["metadata"]["namespace"].clone());
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "generateName",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if metadata.get("uid").and_then(Value::as_str).unwrap_or("").is_empty() {
        metadata.insert("uid".into(), old["metadata"]["uid"].clone());
    }
}

/// After admission: what the kind itself settles, generation above all.
fn settle(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    keep_system_fields(kind, new, old);
    if let Some(custom) = &kind.custom {
        if subresource.is_empty() {
            control::default(&kind.group, &kind.kind, new);
            custom.schema.prune(new);
            custom.schema.default(new);
        }
        if differs_beyond_metadata(kind, new, old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta::edit(new).insert("generation".into(), json!(generation));
        }
    } else if matches!(subresource, "" | "scale") {
        builtin::prepare_update(&kind.group, &kind.kind, new, old);
        if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crd::prepare_update(new, old);
        }
    }
    let revision = old["metadata"]["resourceVersion"].clone();
    meta::edit(new).insert("resourceVersion".into(), revision);
}

fn differs_beyond_metadata(kind: &Kind, new: &Value, old: &Value) -> bool {
    let part = |v: &Value| {
        let mut map = v.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        if kind.status {
            map.remove("status");
        }
        map
    };
    part(new) != part(old)
}

/// Where a real server keeps the object: it shows in one of its error messages.
fn storage_key(call: &Call) -> String {
    let kind = &*call.kind;
    let group = if kind.custom.is_some() { format!("{}/", kind.group) } else { String::new() };
    let namespace = if kind.namespaced { format!("{}/", call.namespace()) } else { String::new() };
    format!("/registry/{group}{}/{namespace}{}", kind.plural, call.name())
}

fn unconditional(kind: &Kind) -> bool {
    kind.custom.is_none() && builtin::unconditional_update(&kind.group, &kind.kind)
}

fn same_name(call: &Call, new: &Value) -> Result<(), Status> {
    let given = meta::name(new);
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        )));
    }
    if given != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let namespace = meta::namespace(new);
    if call.kind.namespaced && !namespace.is_empty() && namespace != call.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Whether a write would change nothing.
fn same(new: &Value, old: &Value) -> bool {
    new == old
}

/// A pod with grace left goes when the kubelet says so, not with its last finalizer.
fn awaits_kubelet(kind: &Kind, object: &Value) -> bool {
    kind.is("", "Pod") && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0
}

fn namespace_held(kind: &Kind, object: &Value) -> bool {
    kind.is("", "Namespace")
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}
