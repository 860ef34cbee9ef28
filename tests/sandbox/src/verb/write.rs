//! What creating and updating share: admission, validation, names, equality.

use std::sync::Arc;

use muster_kube::FieldError;
use muster_objects::managed::{self, Reset};
use muster_objects::meta;
use muster_objects::status::Status;
use rand::Rng;
use serde_json::{Value, json};

use crate::admit::{Attempt, Gvk, Gvr, Operation};
use crate::api::{Api, Call};
use crate::builtin::{self, NameRule};
use crate::kinds::Kind;
use crate::represent;
use crate::{control, crd, sub};

/// Letters of generated names: no vowels, so that no words come out.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `n` random letters as Kubernetes uses them in names.
pub fn random_letters(n: usize) -> String {
    let mut dice = rand::rng();
    (0..n).map(|_| char::from(LETTERS[dice.random_range(0..LETTERS.len())])).collect()
}

/// A name from `generateName`.
pub fn generated_name(base: &str) -> String {
    let base: String = base.chars().take(58).collect();
    format!("{base}{}", random_letters(5))
}

/// What this endpoint can never own.
pub fn reset_of(kind: &Kind, subresource: &str) -> Reset {
    Reset::of(&kind.group, &kind.kind, subresource, kind.status)
}

/// Records who wrote what. The newer view of events is tracked in its own terms.
pub fn track(api: &Api, call: &Call, old: Option<&Value>, new: &mut Value) {
    let kind = &*call.kind;
    let (manager, now) = (call.manager(), api.clock.stamp());
    let subresource = call.path.subresource.as_str();
    let reset = reset_of(kind, subresource);
    let version = kind.api_version();
    let track = |old: Option<&Value>, new: &mut Value| {
        managed::track_update(old, new, &manager, subresource, &version, &now, &kind.shape, &reset);
    };
    if !kind.is_new_event() {
        return track(old, new);
    }
    let (old, mut viewed) = (old.map(builtin::event_to_v1), builtin::event_to_v1(new));
    track(old.as_ref(), &mut viewed);
    if let Some(fields) = viewed["metadata"].get("managedFields") {
        meta::edit(new).insert("managedFields".into(), fields.clone());
    }
}

/// What admission is asked.
fn attempt<'a>(
    call: &'a Call,
    operation: Operation,
    name: &'a str,
    object: Option<Value>,
    old: Option<&'a Value>,
) -> Attempt<'a> {
    let kind = &*call.kind;
    Attempt {
        operation,
        kind: Gvk { group: &kind.group, version: &kind.version, kind: &kind.kind },
        resource: Gvr { group: &kind.group, version: &kind.version, resource: &kind.plural },
        subresource: &call.path.subresource,
        namespace: call.namespace(),
        name,
        object,
        old,
        user: &call.user,
        dry_run: call.query.dry_run,
        options: options(call, operation),
        warnings: Vec::new(),
    }
}

/// The request's options, as webhooks see them.
fn options(call: &Call, operation: Operation) -> Value {
    // A patch is an update by the time webhooks hear of it.
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Delete => "DeleteOptions",
        _ => "UpdateOptions",
    };
    let query = &call.query;
    let mut out = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if query.dry_run {
        out["dryRun"] = json!(["All"]);
    }
    if !query.field_manager.is_empty() {
        out["fieldManager"] = json!(query.field_manager);
    }
    if !query.field_validation.is_empty() {
        out["fieldValidation"] = json!(query.field_validation);
    }
    out
}

/// Runs the object through the mutating half of admission.
pub async fn mutate(
    api: &Api,
    call: &Call,
    operation: Operation,
    name: &str,
    object: Value,
    old: Option<&Value>,
) -> Result<(Value, Vec<String>), Status> {
    let mut attempt = attempt(call, operation, name, Some(object), old);
    api.admission.mutate(&mut attempt).await?;
    let mut changed = attempt.object.take().unwrap_or_default();
    let map = meta::as_map(&mut changed);
    map.remove("apiVersion");
    map.remove("kind");
    Ok((changed, attempt.warnings))
}

/// Runs the object through the validating half of admission and gives it back.
pub async fn review(
    api: &Api,
    call: &Call,
    operation: Operation,
    name: &str,
    object: Option<Value>,
    old: Option<&Value>,
) -> Result<(Value, Vec<String>), Status> {
    let mut attempt = attempt(call, operation, name, object, old);
    api.admission.validate(&mut attempt).await?;
    Ok((attempt.object.take().unwrap_or_default(), attempt.warnings))
}

/// Runs a deletion through both halves of admission. `options` and dry run come from the body.
pub async fn review_deletion(
    api: &Api,
    call: &Call,
    name: &str,
    old: Option<&Value>,
    (options, dry_run): (Value, bool),
) -> Result<Vec<String>, Status> {
    let mut attempt = attempt(call, Operation::Delete, name, None, old);
    attempt.options = options;
    attempt.dry_run = dry_run;
    api.admission.mutate(&mut attempt).await?;
    api.admission.validate(&mut attempt).await?;
    Ok(attempt.warnings)
}

/// Runs what is sent to a subresource such as `pods/binding`, an object of a kind of its own, through both halves of admission.
pub async fn admit_body(api: &Api, call: &Call, kind: Gvk<'_>, body: &Value) -> Result<(), Status> {
    let mut attempt = attempt(call, Operation::Create, call.name(), Some(body.clone()), None);
    attempt.kind = kind;
    api.admission.mutate(&mut attempt).await?;
    api.admission.validate(&mut attempt).await
}

/// Refuses an object that is not valid in itself.
pub fn validate_create(kind: &Kind, object: &Value) -> Result<(), Status> {
    let mut errors;
    match &kind.custom {
        Some(custom) => {
            errors = builtin::validate_metadata(object, kind.namespaced, NameRule::Subdomain);
            errors.extend(scale_errors(kind, object));
            errors.extend(custom.schema.validate(&represent::typed(kind, object), None));
            if errors.is_empty() && custom.hosted {
                errors.extend(control::validate_create(&kind.group, &kind.kind, object));
            }
        }
        None => {
            errors = builtin::validate_create(&kind.group, &kind.kind, object);
            errors.extend(special_errors(kind, object, None));
        }
    }
    invalid(kind, object, errors)
}

/// Refuses a change that is not valid.
pub fn validate_update(
    kind: &Kind,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let mut errors;
    match &kind.custom {
        Some(custom) => {
            errors = builtin::validate_metadata_update(new, old);
            // Upstream checks metadata twice on update, and says so twice.
            errors.extend(builtin::validate_metadata_update(new, old));
            errors.extend(scale_errors(kind, new));
            let (new, old) = (represent::typed(kind, new), represent::typed(kind, old));
            errors.extend(if subresource == "status" {
                custom.schema.validate_status(&new, Some(&old))
            } else {
                custom.schema.validate(&new, Some(&old))
            });
            if errors.is_empty() && subresource.is_empty() && custom.hosted {
                errors.extend(control::validate_update(&kind.group, &kind.kind, &new, &old));
            }
        }
        None if subresource == "status" => {
            errors = builtin::validate_status(&kind.group, &kind.kind, new, old);
        }
        None => {
            errors = builtin::validate_update(&kind.group, &kind.kind, new, old);
            errors.extend(special_errors(kind, new, Some(old)));
        }
    }
    invalid(kind, new, errors)
}

fn scale_errors(kind: &Kind, object: &Value) -> Vec<FieldError> {
    kind.scale.as_ref().map(|scale| sub::scale::errors(scale, object)).unwrap_or_default()
}

/// Kinds whose rules live elsewhere: CRDs with the schemas, webhooks with admission.
fn special_errors(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match kind.group.as_str() {
        "apiextensions.k8s.io" => crd::validate(object, old),
        "admissionregistration.k8s.io" => crate::admit::validate_configuration(object, &kind.kind),
        _ => Vec::new(),
    }
}

fn invalid(kind: &Kind, object: &Value, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // Both views of an event are one kind inside.
    let group = if kind.is_new_event() { "" } else { kind.group.as_str() };
    Err(Status::invalid(group, &kind.kind, meta::name(object), &errors))
}

/// The key under which the store keeps an object.
pub fn key(kind: &Kind, call: &Call, name: &str) -> crate::store::Key {
    let namespace = if kind.namespaced { call.namespace() } else { "" };
    (namespace.to_owned(), name.to_owned())
}

/// Tells the parts of the server that act on certain kinds that one was written.
pub fn written(api: &Arc<Api>, kind: &Kind, object: &Value) {
    if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crd::written(api, object);
    }
}
