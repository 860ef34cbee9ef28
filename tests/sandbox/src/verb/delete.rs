//! DELETE: preconditions, grace, finalizers, and what becomes of dependents.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use jiff::{SignedDuration, Timestamp};
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::{Resource, Status};
use serde_json::{Value, json};

use super::{body, read, write};
use crate::api::{Api, Call};
use crate::builtin;
use crate::clock;
use crate::crd;
use crate::kinds::Kind;
use crate::represent;
use crate::store::{Expect, Object, within};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const TRIES: usize = 1000;

/// What becomes of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go after the object.
    Background,
    /// They go first; the object waits for them.
    Foreground,
    /// They stay and forget the object.
    Orphan,
}

/// How a deletion shall go.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seconds that a pod gets to end.
    pub grace_seconds: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
    /// The client asked for `orphanDependents: false`, the old way.
    pub old_cascade: bool,
    /// Only this object.
    pub uid: Option<String>,
    /// Only in this state.
    pub revision: Option<String>,
    /// Only in thought.
    pub dry_run: bool,
}

/// What a deletion did.
enum DeleteOutcome {
    /// It is gone.
    Gone(Arc<Object>),
    /// It goes when grace is over or its finalizers are.
    Going(Arc<Object>),
    /// Somebody was faster.
    Raced,
}

/// Deletes one object.
pub async fn delete(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let options = options(call)?;
    let (outcome, warnings) = remove(api, call, call.namespace(), call.name(), &options).await?;
    let mut response = match outcome {
        DeleteOutcome::Gone(object) if !returns_object(&call.kind) => {
            call.representation.value(200, &success(&call.kind, &object))
        }
        DeleteOutcome::Gone(object) => answer(call, 200, &object),
        DeleteOutcome::Going(object) => {
            answer(call, if options.old_cascade { 202 } else { 200 }, &object)
        }
        DeleteOutcome::Raced => return Err(Status::stale(call.kind.name(), call.name())),
    };
    represent::warn(&mut response, &warnings);
    Ok(response)
}

fn answer(call: &Call, code: u16, object: &Object) -> Response<Body> {
    call.representation.object(code, &call.kind, object, &call.query.include_object)
}

/// Deletes everything that a list with the same selectors would show.
pub async fn delete_collection(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    if call.kind.namespaced && call.path.namespace.is_none() {
        return Err(Status::method_not_allowed());
    }
    let options = options(call)?;
    let filter = read::filter(call)?;
    let (revision, objects) = api.store.snapshot(&call.kind.resource);
    let wanted: Vec<_> = within(&objects, call.path.namespace.as_deref())
        .filter(|(_, object)| filter.matches(object))
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect();
    let mut items = Vec::new();
    for ((namespace, name), object) in wanted {
        match remove(api, call, &namespace, &name, &options).await {
            Ok(_) if call.kind.custom.is_some() => {
                items.push(represent::typed(&call.kind, &object.value));
            }
            Ok(_) => items.push(represent::viewed(&call.kind, &object.value)),
            Err(status) if status.code == 404 => {}

            Err(status) => return Err(status),
        }
    }
    let list = json!({
        "kind": call.kind.list_kind,
        "apiVersion": call.kind.api_version(),
        "metadata": {"resourceVersion": revision.to_string()},
        "items": items,
    });
    Ok(call.representation.value(200, &list))
}

/// Reads the options from body and query; the body wins.
pub fn options(call: &Call) -> Result<Options, Status> {
    let query = &call.query;
    let mut out = Options {
        grace_seconds: query.grace_seconds,
        dry_run: query.dry_run,
        ..Options::default()
    };
    let mut policy = query.propagation.clone();
    let mut orphan = query.orphan_dependents;
    if !call.body.is_empty() {
        let value = body::parse(call)?;
        let kind = value["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(Status::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: the body is a {kind}"
            )));
        }
        out.grace_seconds = value["gracePeriodSeconds"].as_i64().or(out.grace_seconds);
        policy = value["propagationPolicy"].as_str().map(str::to_owned).or(policy);
        orphan = value["orphanDependents"].as_bool().or(orphan);
        out.dry_run |= value["dryRun"].as_array().is_some_and(|list| !list.is_empty());
        let text = |v: &Value| v.as_str().map(str::to_owned);
        out.uid = text(&value["preconditions"]["uid"]);
        out.revision = text(&value["preconditions"]["resourceVersion"]);
    }
    out.old_cascade = orphan == Some(false);
    out.propagation = match (policy.as_deref(), orphan) {
        (Some("Background"), None) => Some(Propagation::Background),
        (Some("Foreground"), None) => Some(Propagation::Foreground),
        (Some("Orphan"), None) => Some(Propagation::Orphan),
        (Some(_), Some(_)) => {
            return Err(refuse(FieldError::with_value(
                FieldErrorKind::Invalid,
                "propagationPolicy",
                &json!(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            )));
        }
        (Some(other), None) => {
            return Err(refuse(FieldError::with_value(
                FieldErrorKind::NotSupported,
                "propagationPolicy",
                &json!(other),
                "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            )));
        }
        (None, Some(true)) => Some(Propagation::Orphan),
        (None, Some(false)) => Some(Propagation::Background),
        (None, None) => None,
    };
    Ok(out)
}

fn refuse(error: FieldError) -> Status {
    Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error])
}

/// Deletes one object, or lets it begin to go.
async fn remove(
    api: &Arc<Api>,
    call: &Call,
    namespace: &str,
    name: &str,
    options: &Options,
) -> Result<(DeleteOutcome, Vec<String>), Status> {
    let mut warnings = None;
    for _ in 0..TRIES {
        let live = api
            .store
            .get(&call.kind.resource, namespace, name)
            .ok_or_else(|| Status::not_found(call.kind.name(), name))?;
        check(&call.kind, &live, options)?;
        if warnings.is_none() {
            let old = Some(&live.value);
            let shown = shown(options);
            warnings = Some(write::review_deletion(api, call, name, old, shown).await?);
        }
        match step(api, &call.kind, live, options)? {
            DeleteOutcome::Raced => {}
            outcome => return Ok((outcome, warnings.unwrap_or_default())),
        }
    }
    Err(Status::stale(call.kind.name(), name))
}

/// The options as webhooks see them.
fn shown(options: &Options) -> (Value, bool) {
    let mut out = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(grace) = options.grace_seconds {
        out["gracePeriodSeconds"] = json!(grace);
    }
    if let Some(propagation) = options.propagation {
        out["propagationPolicy"] = json!(format!("{propagation:?}"));
    }
    for (field, value) in [("uid", &options.uid), ("resourceVersion", &options.revision)] {
        if let Some(value) = value {
            out["preconditions"][field] = json!(value);
        }
    }
    if options.dry_run {
        out["dryRun"] = json!(["All"]);
    }
    (out, options.dry_run)
}

/// Deletes without a call: for the parts of the server that delete on their own account.
pub fn purge(api: &Arc<Api>, kind: &Kind, live: Arc<Object>) -> bool {
    let options = Options { grace_seconds: Some(0), ..Options::default() };
    !matches!(step(api, kind, live, &options), Ok(DeleteOutcome::Raced) | Err(_))
}

fn check(kind: &Kind, live: &Object, options: &Options) -> Result<(), Status> {
    let name = meta::name(&live.value);
    let differs = |what: &str, wanted: &str, found: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {}",
            if what == "UID" { "deleted and then recreated" } else { "modified" }
        );
        Err(Status::conflict(Resource { group: &kind.group, plural: &kind.kind }, name, &why))
    };
    if let Some(uid) = &options.uid
        && uid != meta::uid(&live.value)
    {
        return differs("UID", uid, meta::uid(&live.value));
    }
    if let Some(revision) = &options.revision
        && *revision != live.revision.to_string()
    {
        return differs("ResourceVersion", revision, &live.revision.to_string());
    }
    Ok(())
}

fn step(
    api: &Arc<Api>,
    kind: &Kind,
    live: Arc<Object>,
    options: &Options,
) -> Result<DeleteOutcome, Status> {
    let now = api.clock.now();
    let mut next = live.value.clone();
    set_finalizers(kind, &mut next, options);
    let grace = grace(kind, &live.value, options);
    let is_crd = kind.is("apiextensions.k8s.io", "CustomResourceDefinition");
    if is_crd {
        crd::begin_deletion(&mut next, &clock::seconds(now));
    }
    let held = !meta::finalizers(&next).is_empty()
        || kind.is("", "Namespace")
            && !next["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let expect = Expect::Revision(live.revision);
    let key = (meta::namespace(&live.value).to_owned(), meta::name(&live.value).to_owned());
    if grace == 0 && !held {
        if options.dry_run {
            return Ok(DeleteOutcome::Gone(live));
        }
        if kind.is("", "Pod") {
            mark(kind, &mut next, &live.value, now, 0);
        }
        return Ok(match api.store.remove(&kind.resource, &key, expect, next) {
            Ok(gone) => DeleteOutcome::Gone(gone),
            Err(_) => DeleteOutcome::Raced,
        });
    }
    if !is_crd {
        mark(kind, &mut next, &live.value, now, grace);
    }
    if next == live.value || options.dry_run {
        return Ok(DeleteOutcome::Going(live));
    }
    Ok(match api.store.put(&kind.resource, key, expect, next) {
        Ok(object) => {
            if is_crd {
                crd::terminating(api, &object.value);
            }
            DeleteOutcome::Going(object)
        }
        Err(_) => DeleteOutcome::Raced,
    })
}

/// Seconds that the object gets. Only pods that run on a node get any.
fn grace(kind: &Kind, live: &Value, options: &Options) -> i64 {
    let Some(default) = builtin::default_grace_seconds(&kind.group, &kind.kind, live) else {
        return 0;
    };
    let unbound = live["spec"]["nodeName"].as_str().unwrap_or("").is_empty();
    let ended = matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unbound || ended { 0 } else { options.grace_seconds.unwrap_or(default).max(0) }
}

/// Marks the object as terminating. A later deletion may shorten the grace, never extend it.
fn mark(kind: &Kind, next: &mut Value, live: &Value, now: Timestamp, grace: i64) {
    let before = live["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if meta::is_terminating(live) && before.is_none_or(|before| before <= grace) {
        return;
    }
    let first = !meta::is_terminating(live);
    let at = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let metadata = meta::edit(next);
    metadata.insert("deletionTimestamp".into(), json!(clock::seconds(at)));
    if !kind.is("", "Namespace") {
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    }
    if first && let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), json!(generation + 1));
    }
    if first && kind.is("", "Namespace") {
        next["status"]["phase"] = json!("Terminating");
    }
}

/// The garbage collector's finalizers, as the propagation policy asks.
fn set_finalizers(kind: &Kind, next: &mut Value, options: &Options) {
    let kept: Vec<String> = meta::finalizers(next).into_iter().map(str::to_owned).collect();
    let has = |name: &str| kept.iter().any(|f| f == name);
    let (orphan, foreground) = match options.propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
        None => (
            builtin::default_propagation(&kind.group, &kind.kind) == builtin::Propagation::Orphan
                && kind.custom.is_none(),
            false,
        ),
    };
    let mut list: Vec<Value> = kept
        .iter()
        .filter(|f| !matches!(f.as_str(), ORPHAN | FOREGROUND))
        .map(|f| json!(f))
        .collect();
    if orphan {
        list.push(json!(ORPHAN));
    }
    if foreground {
        list.push(json!(FOREGROUND));
    }
    let metadata = meta::edit(next);
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), Value::Array(list));
    }
}

/// Kinds whose deletion answers with the object instead of a `Status`.
fn returns_object(kind: &Kind) -> bool {
    kind.custom.is_none()
        && matches!(
            (kind.group.as_str(), kind.kind.as_str()),
            (
                "",
                "Namespace"
                    | "PersistentVolume"
                    | "PersistentVolumeClaim"
                    | "Pod"
                    | "PodTemplate"
                    | "ResourceQuota"
                    | "Service"
                    | "ServiceAccount"
            ) | ("storage.k8s.io", "CSINode" | "StorageClass")
        )
}

fn success(kind: &Kind, object: &Object) -> Value {
    let mut details = json!({
        "name": meta::name(&object.value),
        "kind": kind.plural,
        "uid": meta::uid(&object.value),
    });
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
