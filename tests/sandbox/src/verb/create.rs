//! POST: a new object.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Value, json};

use super::{body, write};
use crate::admit::{self, Operation};
use crate::api::{Api, Call};
use crate::builtin::{self, Prepare};
use crate::kinds::Kind;
use crate::represent;
use crate::store::{Expect, Object};
use crate::{control, crd};

/// An object on its way into the store.
pub struct Fresh {
    /// The object, decoded and defaulted, without its type.
    pub object: Value,
    /// Warnings so far.
    pub warnings: Vec<String>,
    /// Whether `metadata.managedFields` is settled already (apply did it).
    pub managed: bool,
}

/// Creates from the request's body.
pub async fn create(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let value = body::object(call)?;
    let (object, mut unknown) = body::shape_up(&call.kind, value)?;
    unknown.splice(0..0, body::duplicates(call));
    let warnings = body::judge_unknown(&call.kind, &call.query.field_validation, unknown)?;
    let fresh = Fresh { object, warnings: warnings.clone(), managed: false };
    let (stored, warnings) =
        insert(api, call, fresh).await.map_err(|status| status.warning(warnings))?;
    let mut response =
        call.representation.object(201, &call.kind, &stored, &call.query.include_object);
    represent::warn(&mut response, &warnings);
    Ok(response)
}

/// Takes a decoded object through admission and validation into the store.
pub async fn insert(
    api: &Arc<Api>,
    call: &Call,
    fresh: Fresh,
) -> Result<(Arc<Object>, Vec<String>), Status> {
    let Fresh { mut object, mut warnings, managed } = fresh;
    let kind = &*call.kind;
    place(call, &mut object, managed)?;
    default_special(kind, &mut object);
    if kind.status {
        // What a client says of the status is nobody's: the server fills it in below.
        meta::as_map(&mut object).remove("status");
    }
    let generate = meta::text(&object, "generateName").to_owned();
    let mut tries = 0;
    if meta::name(&object).is_empty() && !generate.is_empty() {
        meta::edit(&mut object).insert("name".into(), json!(write::generated_name(&generate)));
        tries = 7;
    }
    let now = api.clock.stamp();
    system_fields(kind, &mut object, &now);
    if !managed {
        write::track(api, call, None, &mut object);
    }
    let name = meta::name(&object).to_owned();
    let (changed, more) = write::mutate(api, call, Operation::Create, &name, object, None).await?;
    warnings.extend(more);
    object = changed;
    if let Some(custom) = &kind.custom {
        if custom.hosted {
            control::default(&kind.group, &kind.kind, &mut object);
        }
        custom.schema.prune(&mut object);
        custom.schema.default(&mut object);
        meta::edit(&mut object).insert("generation".into(), json!(1));
    } else {
        builtin::default(&kind.group, &kind.kind, &mut object);
        let prepare = Prepare {
            now: &now,
            allocate_ip: &|| cluster_ip(api),
            allocate_port: &|| node_port(api),
        };
        builtin::prepare_create(&kind.group, &kind.kind, &mut object, &prepare);
        if kind.is("", "Node") {
            // A node's status shows all its fields, empty as they are.
            kind.shape.complete(&mut object);
        }
        if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crd::prepare_create(&mut object);
        }
    }
    write::validate_create(kind, &object)?;
    if call.method != Method::POST {
        // Who may patch or update does not bring things into being.
        api.authorize(call, "create")?;
    }
    let (reviewed, more) =
        write::review(api, call, Operation::Create, &name, Some(object), None).await?;
    object = reviewed;
    warnings.extend(more);
    if call.query.dry_run {
        if api.store.get(&kind.resource, call.namespace(), &name).is_some() {
            return Err(Status::already_exists(kind.name(), &name));
        }
        return Ok((Arc::new(Object::unstored(object)), warnings));
    }
    loop {
        let name = meta::name(&object).to_owned();
        let key = write::key(kind, call, &name);
        // Only a generated name is tried again.
        let again = if tries > 0 { object.clone() } else { Value::Null };
        match api.store.put(&kind.resource, key, Expect::Absent, object) {
            Ok(stored) => {
                write::written(api, kind, &stored.value);
                return Ok((stored, warnings));
            }
            Err(_) if tries > 0 => {
                tries -= 1;
                object = again;
                let next = write::generated_name(&generate);
                meta::edit(&mut object).insert("name".into(), json!(next));
            }
            Err(_) => return Err(Status::already_exists(kind.name(), &name)),
        }
    }
}

/// Checks name and namespace against the route and sets the namespace.
fn place(call: &Call, object: &mut Value, applied: bool) -> Result<(), Status> {
    let kind = &*call.kind;
    let given = meta::namespace(object).to_owned();
    if kind.namespaced {
        if !given.is_empty() && given != call.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        meta::edit(object).insert("namespace".into(), json!(call.namespace()));
    } else if !given.is_empty() {
        meta::edit(object).remove("namespace");
    }
    if !meta::text(object, "resourceVersion").is_empty() && !applied {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    if meta::name(object).is_empty() && meta::text(object, "generateName").is_empty() {
        let error = FieldError::new(
            FieldErrorKind::Required,
            "metadata.name",
            "name or generateName is required",
        );
        return Err(Status::invalid(&kind.group, &kind.kind, "", &[error]));
    }
    Ok(())
}

/// Identity and time of birth, which no client decides.
fn system_fields(kind: &Kind, object: &mut Value, now: &str) {
    let metadata = meta::edit(object);
    for field in [
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), json!(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".into(), json!(now));
    if kind.custom.is_some() {
        metadata.insert("generation".into(), json!(1));
    }
}

/// Defaults that live outside `builtin`.
fn default_special(kind: &Kind, object: &mut Value) {
    match kind.group.as_str() {
        "apiextensions.k8s.io" => muster_objects::schema::crd::default_crd(object),
        "admissionregistration.k8s.io" => admit::default_configuration(object, &kind.kind),
        _ => {}
    }
}

/// The next cluster IP of 10.96.0.0/16.
fn cluster_ip(api: &Api) -> String {
    let taken: std::collections::HashSet<String> = api
        .store
        .list("services", None)
        .iter()
        .filter_map(|s| s.value["spec"]["clusterIP"].as_str().map(str::to_owned))
        .collect();
    (2..=u16::MAX)
        .map(|n| format!("10.96.{}.{}", n >> 8, n & 255))
        .find(|ip| !taken.contains(ip))
        .unwrap_or_default()
}

/// The next free node port.
fn node_port(api: &Api) -> u16 {
    let taken: std::collections::HashSet<u64> = api
        .store
        .list("services", None)
        .iter()
        .flat_map(|s| s.value["spec"]["ports"].as_array().cloned().unwrap_or_default())
        .filter_map(|p| p["nodePort"].as_u64())
        .collect();
    (30_000..=32_767).find(|port| !taken.contains(&u64::from(*port))).unwrap_or(30_000)
}
