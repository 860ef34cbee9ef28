//! The rules that every object's metadata follows.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use super::NameRule;
use super::field::{at, entries, list, number, text, truth};
use super::names;

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

pub(super) fn invalid(field: &str, value: &Value, detail: impl Into<String>) -> FieldError {
    FieldError::with_value(FieldErrorKind::Invalid, field, value, detail)
}

pub(super) fn required(field: impl Into<String>, detail: &str) -> FieldError {
    FieldError::new(FieldErrorKind::Required, field, detail)
}

pub(super) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    FieldError::new(FieldErrorKind::Forbidden, field, detail)
}

pub(super) fn duplicate(field: &str, value: &Value) -> FieldError {
    FieldError::with_value(FieldErrorKind::Duplicate, field, value, "")
}

pub(super) fn not_supported(field: &str, value: &str, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
    let detail = format!("supported values: {}", supported.join(", "));
    FieldError::with_value(FieldErrorKind::NotSupported, field, &json!(value), detail)
}

/// One complaint per text, all about one value.
pub(super) fn complain(
    errors: &mut Vec<FieldError>,
    field: &str,
    value: &str,
    complaints: Vec<String>,
) {
    for complaint in complaints {
        errors.push(invalid(field, &json!(value), complaint));
    }
}

/// See [`super::validate_metadata`].
pub(super) fn validate(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    validate_at(object, namespaced, rule, "metadata")
}

fn validate_at(object: &Value, namespaced: bool, rule: NameRule, path: &str) -> Vec<FieldError> {
    let empty = Value::Null;
    let meta = object.get("metadata").unwrap_or(&empty);
    let mut errors = Vec::new();
    let prefix = text(meta, &["generateName"]);
    if !prefix.is_empty() {
        let field = format!("{path}.generateName");
        complain(&mut errors, &field, prefix, names::check(rule, prefix, true));
    }
    let name = text(meta, &["name"]);
    if name.is_empty() {
        errors.push(required(format!("{path}.name"), "name or generateName is required"));
    } else {
        let field = format!("{path}.name");
        complain(&mut errors, &field, name, names::check(rule, name, false));
    }
    let namespace = text(meta, &["namespace"]);
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(required(format!("{path}.namespace"), "")),
        (true, false) => {
            let field = format!("{path}.namespace");
            complain(&mut errors, &field, namespace, names::label(namespace));
        }
        (false, false) => {
            errors.push(forbidden(format!("{path}.namespace"), "not allowed on this type"));
        }
        (false, true) => {}
    }
    if let Some(generation) = number(meta, &["generation"]).filter(|number| *number < 0) {
        errors.push(invalid(
            &format!("{path}.generation"),
            &json!(generation),
            "must be greater than or equal to 0",
        ));
    }
    labels(meta.get("labels").unwrap_or(&empty), &format!("{path}.labels"), &mut errors);
    annotations(meta, &format!("{path}.annotations"), &mut errors);
    owners(meta, &format!("{path}.ownerReferences"), &mut errors);
    finalizers(meta, &format!("{path}.finalizers"), &mut errors);
    managed(meta, &format!("{path}.managedFields"), &mut errors);
    errors
}

/// Labels, wherever they stand.
pub(super) fn labels(labels: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in entries(labels, &[]) {
        complain(errors, field, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        complain(errors, field, value, names::label_value(value));
    }
}

/// Annotations of the metadata at hand.
pub(super) fn annotations(meta: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in entries(meta, &["annotations"]) {
        complain(errors, field, key, names::qualified(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            field,
            format!("may not be more than {ANNOTATIONS_LIMIT} bytes"),
        ));
    }
}

fn owners(meta: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    let all = list(meta, &["ownerReferences"]);
    for owner in all {
        let version = text(owner, &["apiVersion"]);
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        if number.is_empty() {
            let field = format!("{field}.apiVersion");
            errors.push(invalid(&field, &json!(version), "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            let value = text(owner, &[key]);
            if value.is_empty() {
                let field = format!("{field}.{key}");
                errors.push(invalid(&field, &json!(value), "must not be empty"));
            }
        }
        let kind = text(owner, &["kind"]);
        if group.is_empty() && number == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            let mut error = invalid(field, owner, detail);
            error.bad_value =
                muster_kube::BadValue::Printed(shown_owners(std::slice::from_ref(owner)));
            errors.push(error);
        }
        if truth(owner, &["controller"]) {
            let this = format!("{kind}/{}", text(owner, &["name"]));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    let mut error = invalid(field, &Value::Null, detail);
                    error.bad_value =
                        muster_kube::BadValue::Printed(format!("[{}]", shown_owners(all)));
                    errors.push(error);
                }
            }
        }
    }
}

fn finalizers(meta: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let all = list(meta, &["finalizers"]);
    for finalizer in all {
        let name = finalizer.as_str().unwrap_or_default();
        complain(errors, field, name, names::qualified(name));
    }
    let has = |name: &str| all.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(invalid(field, &json!(all), detail));
    }
}

/// Finalizers of a built-in kind: one of Kubernetes' own, or qualified by a domain.
pub(super) fn known_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    for (place, finalizer) in list(object, &["metadata", "finalizers"]).iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let known = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if !name.contains('/') && !known {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(invalid(&format!("metadata.finalizers[{place}]"), finalizer, detail));
        }
    }
}

/// Owners in the order of fields that a message shows.
fn shown_owners(owners: &[Value]) -> String {
    const ORDER: [&str; 6] =
        ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let one = |owner: &Value| {
        let parts = ORDER.iter().filter_map(|key| {
            owner.get(*key).filter(|value| !value.is_null()).map(|v| format!("\"{key}\":{v}"))
        });
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    };
    owners.iter().map(one).collect::<Vec<_>>().join(",")
}

fn managed(meta: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, entry) in list(meta, &["managedFields"]).iter().enumerate() {
        let operation = text(entry, &["operation"]);
        if !matches!(operation, "Apply" | "Update") {
            let field = format!("{field}[{place}].operation");
            errors.push(invalid(&field, &json!(operation), "must be `Apply` or `Update`"));
        }
        let kind = text(entry, &["fieldsType"]);
        if !matches!(kind, "" | "FieldsV1") {
            let field = format!("{field}[{place}].fieldsType");
            errors.push(invalid(&field, &json!(kind), "must be `FieldsV1`"));
        }
        if text(entry, &["manager"]).len() > 128 {
            errors.push(FieldError::new(
                FieldErrorKind::TooLong,
                format!("{field}[{place}].manager"),
                "may not be more than 128 bytes",
            ));
        }
    }
}

/// A field that may never change.
pub(super) fn immutable(
    field: &str,
    new: Option<&Value>,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let null = Value::Null;
    if new.unwrap_or(&null) != old.unwrap_or(&null) {
        errors.push(invalid(field, new.unwrap_or(&null), "field is immutable"));
    }
}

/// See [`super::validate_metadata_update`].
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let empty = Value::Null;
    let meta = new.get("metadata").unwrap_or(&empty);
    let before = old.get("metadata").unwrap_or(&empty);
    let mut errors = Vec::new();
    if at(before, &["deletionTimestamp"]).is_some() {
        let known = list(before, &["finalizers"]);
        let mut extra: Vec<&str> = list(meta, &["finalizers"])
            .iter()
            .filter(|finalizer| !known.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let shown: Vec<String> = extra.iter().map(|name| format!("{name:?}")).collect();
            errors.push(forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
    }
    if text(meta, &["resourceVersion"]).is_empty() {
        let detail = "must be specified for an update";
        errors.push(invalid("metadata.resourceVersion", &json!(""), detail));
    }
    let generation = number(meta, &["generation"]).unwrap_or_default();
    if generation < number(before, &["generation"]).unwrap_or_default() {
        let detail = "must not be decremented";
        errors.push(invalid("metadata.generation", &json!(generation), detail));
    }
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let new = meta.get(key).filter(|value| !value.is_null());
        let old = before.get(key).filter(|value| !value.is_null());
        if new != old {
            let shown = match (new, key) {
                (Some(value), _) => value.clone(),
                (None, "name" | "namespace" | "uid") => json!(""),
                (None, _) => Value::Null,
            };
            errors.push(invalid(&format!("metadata.{key}"), &shown, "field is immutable"));
        }
    }
    labels(meta.get("labels").unwrap_or(&empty), "metadata.labels", &mut errors);
    annotations(meta, "metadata.annotations", &mut errors);
    owners(meta, "metadata.ownerReferences", &mut errors);
    managed(meta, "metadata.managedFields", &mut errors);
    errors
}
