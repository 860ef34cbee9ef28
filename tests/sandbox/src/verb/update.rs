//! PUT and PATCH, on the object or on its status: compute, check, write; again if somebody was faster.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::patch::PatchKind;
use muster_objects::status::Status;
use serde_json::Value;

use super::change::{self, Change};
use super::create::{self, Fresh};
use super::settle::settle;
use super::{body, write};
use crate::admit::Operation;
use crate::api::{Api, Call};
use crate::builtin;
use crate::kinds::Kind;
use crate::represent;
use crate::store::{Expect, Object};

/// How often a write that names no revision is tried again when others are faster. Each time somebody
/// else got on, so this is a bound for pathological cases only.
const TRIES: usize = 1000;

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
    let change = change::read(call)?;
    let done = perform(api, call, &change).await?;
    let mut response =
        call.representation.object(done.code, &call.kind, &done.object, &call.query.include_object);
    represent::warn(&mut response, &done.warnings);
    Ok(response)
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
            let (object, warnings) = change::apply_config(api, call, None, config)?;
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
    let (mut new, mut warnings) = change::compute(api, call, change, old)?;
    same_name(call, &new)?;
    let asked_revision = meta::text(&new, "resourceVersion").to_owned();
    if asked_revision.is_empty() && !unconditional(kind) && matches!(change, Change::Put(_)) {
        let error = FieldError::printed(
            FieldErrorKind::Invalid,
            "metadata.resourceVersion",
            "0",
            "must be specified for an update",
        );
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
