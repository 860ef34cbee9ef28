//! GET: one object, or a list.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine;
use http::Response;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::select::{FieldSelector, LabelSelector};
use muster_objects::status::{Cause, Details, Status};
use serde_json::{Value, json};

use crate::api::{Api, Call};
use crate::builtin;
use crate::kinds::Kind;
use crate::represent::{self, Form};
use crate::store::{Compacted, Filter, Key, Object, Snapshot, within};
use crate::table;

use super::listing::Listing;

/// Answers GET of one object.
pub fn get(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let asked = revision(&call.query.resource_version)?;
    let now = api.store.revision();
    if asked > now {
        return Err(too_large(asked, now));
    }
    let object = live(api, call)?;
    Ok(call.representation.object(200, &call.kind, &object, &call.query.include_object))
}

/// The object that the call names, or 404.
pub fn live(api: &Api, call: &Call) -> Result<Arc<Object>, Status> {
    api.store
        .get(&call.kind.resource, call.namespace(), call.name())
        .ok_or_else(|| Status::not_found(call.kind.name(), call.name()))
}

/// Where the next page begins.
struct Continue {
    revision: u64,
    after: Key,
}

/// Objects of a namespace or of all, filtered, page by page.
pub fn list(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let filter = filter(call)?;
    let (revision, objects, after) = position(api, call)?;
    let namespace = call.path.namespace.as_deref();
    let unfiltered = filter.labels.is_none() && filter.fields.is_none();
    let mut wanted = within(&objects, namespace)
        .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after))
        .filter(|(_, object)| unfiltered || filter.matches(object));
    let limit = if call.query.limit == 0 { usize::MAX } else { call.query.limit };
    let page: Vec<(&Key, &Arc<Object>)> = wanted.by_ref().take(limit).collect();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if call.kind.custom.is_some() && call.representation.form != Form::Table {
        metadata["continue"] = json!("");
    }
    let rest = if page.len() < limit { 0 } else { wanted.count() };
    if rest > 0
        && let Some((last, _)) = page.last()
    {
        metadata["continue"] =
            Value::String(Continue { revision, after: (*last).clone() }.to_token());
        if unfiltered {
            metadata["remainingItemCount"] = json!(rest);
        }
    }
    Ok(send(call, &page, &metadata))
}

fn send(call: &Call, page: &[(&Key, &Arc<Object>)], metadata: &Value) -> Response<Body> {
    let kind = &*call.kind;
    let plain = call.representation.form == Form::Whole && !call.representation.yaml;
    if plain && page.iter().all(|(_, object)| represent::is_verbatim(kind, object)) {
        let objects = page.iter().map(|(_, object)| Arc::clone(object)).collect();
        return represent::send(200, Listing::new(kind, objects, metadata));
    }
    let values = || page.iter().map(|(_, object)| &object.value);
    let value = match call.representation.form {
        Form::Table => {
            let rows: Vec<&Value> = values().collect();
            table::of(kind, &rows, Some(metadata), &call.query.include_object)
        }
        Form::Metadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": values().map(represent::metadata_only).collect::<Vec<_>>(),
        }),
        Form::Whole => json!({
            "kind": kind.list_kind,
            "apiVersion": kind.api_version(),
            "metadata": metadata,
            "items": values().map(|v| item(kind, v)).collect::<Vec<_>>(),
        }),
    };
    call.representation.value(200, &value)
}

/// An item of a list: those of custom resources carry their type.
fn item(kind: &Kind, value: &Value) -> Value {
    if kind.custom.is_some() {
        represent::typed(kind, value)
    } else {
        represent::viewed(kind, value)
    }
}

/// The selectors of a list or watch.
pub fn filter(call: &Call) -> Result<Filter, Status> {
    let query = &call.query;
    let labels = match query.labels.as_str() {
        "" => None,
        text => Some(LabelSelector::parse(text)?),
    };
    let mut fields = match query.fields.as_str() {
        "" => None,
        text => Some(fields(&call.kind, text)?),
    };
    if let Some(name) = &call.path.name {
        fields = Some(FieldSelector::parse(&format!("metadata.name={name}"), &["metadata.name"])?);
    }
    Ok(Filter { namespace: call.path.namespace.clone(), labels, fields })
}

fn fields(kind: &Kind, text: &str) -> Result<FieldSelector, Status> {
    match &kind.custom {
        Some(custom) => {
            let mut allowed = vec!["metadata.name", "metadata.namespace"];
            allowed.extend(custom.selectable.iter().map(String::as_str));
            FieldSelector::parse(text, &allowed)
        }
        None => FieldSelector::parse(text, builtin::selectable_fields(&kind.group, &kind.kind)),
    }
}

/// Which revision the list shows, and where it begins.
fn position(api: &Api, call: &Call) -> Result<(u64, Snapshot, Option<Key>), Status> {
    let (query, resource) = (&call.query, &call.kind.resource);
    let exact = check_match(call)?;
    if !query.continue_.is_empty() {
        let token = Continue::from_token(&query.continue_)?;
        let objects = api.store.snapshot_at(resource, token.revision).map_err(|gone| {
            let _oldest: Compacted = gone;
            Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            )
        })?;
        return Ok((token.revision, objects, Some(token.after)));
    }
    let asked = revision(&query.resource_version)?;
    let (now, objects) = api.store.snapshot(resource);
    if asked > now {
        return Err(too_large(asked, now));
    }
    if exact && asked > 0 {
        let objects = api.store.snapshot_at(resource, asked).map_err(|c| compacted(asked, c))?;
        return Ok((asked, objects, None));
    }
    Ok((now, objects, None))
}

fn check_match(call: &Call) -> Result<bool, Status> {
    let query = &call.query;
    let wrong = |kind, value: Option<&str>, detail: &str| {
        let field = "resourceVersionMatch";
        let error = match value {
            Some(value) => FieldError::printed(kind, field, format!("{value:?}"), detail),
            None => FieldError::new(kind, field, detail),
        };
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]))
    };
    match query.resource_version_match.as_str() {
        "" if query.initial_events.is_some() => wrong_initial(),
        "" => Ok(false),
        _ if query.initial_events.is_some() => wrong_initial(),
        _ if query.resource_version.is_empty() && query.initial_events.is_none() => wrong(
            FieldErrorKind::Forbidden,
            None,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        _ if !query.continue_.is_empty() => wrong(
            FieldErrorKind::Forbidden,
            None,
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        "Exact" if query.resource_version == "0" => wrong(
            FieldErrorKind::Forbidden,
            None,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        "Exact" => Ok(true),
        "NotOlderThan" => Ok(false),
        other => wrong(
            FieldErrorKind::NotSupported,
            Some(other),
            "supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
    }
}

fn wrong_initial() -> Result<bool, Status> {
    let forbidden =
        |field: &str, detail: &str| FieldError::new(FieldErrorKind::Forbidden, field, detail);
    Err(Status::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"),
        ],
    ))
}

/// A `resourceVersion` as a number; unset is 0.
pub fn revision(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let error = FieldError::with_value(
            FieldErrorKind::Invalid,
            "resourceVersion",
            &Value::from(text),
            format!("strconv.ParseUint: parsing {text:?}: invalid syntax"),
        );
        Status::bad_request(format!("invalid resource version: {error}"))
    })
}

/// 410 for a revision that is gone from the log.
pub fn compacted(asked: u64, gone: Compacted) -> Status {
    Status::expired(format!("too old resource version: {asked} ({})", gone.oldest))
}

fn too_large(asked: u64, now: u64) -> Status {
    Status {
        code: 504,
        reason: "Timeout".into(),
        warnings: Vec::new(),
        message: format!("Timeout: Too large resource version: {asked}, current: {now}"),
        details: Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                ..Cause::default()
            }],
            retry_after_seconds: Some(1),
            ..Details::default()
        })),
    }
}

// === impl Continue ===

impl Continue {
    fn to_token(&self) -> String {
        let (namespace, name) = &self.after;
        let start = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        let token =
            json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": format!("{start}\u{0}")});
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn from_token(token: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|e| invalid(&e.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = bytes.first().copied().unwrap_or(0);
            let shown = if first.is_ascii_graphic() {
                char::from(first).to_string()
            } else if first < 0x80 {
                format!("\\x{first:02x}")
            } else {
                format!("\\u{first:04x}")
            };
            invalid(&format!("invalid character '{shown}' looking for beginning of value"))
        })?;
        let revision = value["rv"].as_u64().ok_or_else(|| invalid("no revision"))?;
        let start = value["start"].as_str().unwrap_or("").trim_end_matches('\0');
        let after = match start.split_once('/') {
            Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
            None => (String::new(), start.to_owned()),
        };
        Ok(Self { revision, after })
    }
}
