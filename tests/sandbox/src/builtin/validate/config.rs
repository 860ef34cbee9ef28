//! Config maps, secrets, claims and storage classes.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use crate::builtin::field::{at, entries, text, truth};
use crate::builtin::internal::claim_spec_difference;
use crate::builtin::metadata::{complain, forbidden, immutable, invalid, required};
use crate::builtin::names;

const LIMIT: usize = 1024 * 1024;

fn too_large(field: &str) -> FieldError {
    let detail = format!("may not be more than {LIMIT} bytes");
    FieldError::new(FieldErrorKind::TooLong, field, detail)
}

/// Bytes that a base64 text stands for.
fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

/// Keys and size of a config map.
pub(super) fn config_map(map: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in entries(map, &["data"]) {
        let field = format!("data[{key}]");
        complain(errors, &field, key, names::data_key(key));
        if at(map, &["binaryData", key]).is_some() {
            let detail = "duplicate of key present in binaryData";
            errors.push(invalid(&field, &json!(key), detail));
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(map, &["binaryData"]) {
        complain(errors, &format!("binaryData[{key}]"), key, names::data_key(key));
        size += decoded_len(value);
    }
    if size > LIMIT {
        errors.push(too_large(""));
    }
}

/// Keys and size of a secret, and what its type needs.
pub(super) fn secret(secret: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in entries(secret, &["data"]) {
        complain(errors, &format!("data[{key}]"), key, names::data_key(key));
        size += decoded_len(value);
    }
    if size > LIMIT {
        errors.push(too_large("data"));
    }
    let has = |key: &str| at(secret, &["data", key]).is_some();
    let mut need = |key: &str| errors.push(required(format!("data[{key}]"), ""));
    match text(secret, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if text(secret, &["metadata", "annotations", key]).is_empty() {
                errors.push(required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" if !has(".dockercfg") => need(".dockercfg"),
        "kubernetes.io/dockerconfigjson" if !has(".dockerconfigjson") => need(".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if text(secret, &["data", "ssh-privatekey"]).is_empty() => {
            need("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    need(key);
                }
            }
        }
        _ => {}
    }
}

/// A secret keeps its type; what is marked immutable keeps its data.
pub(super) fn unchanged(kind: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if kind == "Secret" {
        immutable("type", new.get("type"), old.get("type"), errors);
    }
    if !truth(old, &["immutable"]) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !truth(new, &["immutable"]) {
        errors.push(forbidden("immutable", detail));
    }
    for key in ["data", "binaryData"] {
        if new.get(key) != old.get(key) {
            errors.push(forbidden(key, detail));
        }
    }
}

/// The spec of a claim changes only where storage grows or the server binds it.
pub(super) fn claim_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut spec = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").cloned().unwrap_or_default();
    if let Value::Object(fields) = &mut spec {
        if text(&before, &["volumeName"]).is_empty() {
            crate::builtin::field::copy(fields, &before, "volumeName");
        }
        if at(&before, &["storageClassName"]).is_none() {
            crate::builtin::field::copy(fields, &before, "storageClassName");
        }
        let bound = text(old, &["status", "phase"]) == "Bound";
        let asked = at(&before, &["resources", "requests", "storage"]).cloned();
        if let (true, Some(asked)) = (bound, asked)
            && let Some(requests) = fields
                .get_mut("resources")
                .and_then(|resources| resources.get_mut("requests"))
                .and_then(Value::as_object_mut)
        {
            requests.insert("storage".to_owned(), asked);
        }
        crate::builtin::field::copy(fields, &before, "volumeAttributesClassName");
    }
    if spec != before {
        errors.push(forbidden(
            "spec",
            format!(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
                claim_spec_difference(&before, &spec)
            ),
        ));
    }
}

/// A storage class is fixed but for its metadata and whether volumes may grow.
pub(super) fn storage_class_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let detail = "updates to parameters are forbidden.";
    if new.get("parameters") != old.get("parameters") {
        errors.push(forbidden("parameters", detail));
    }
    if new.get("provisioner") != old.get("provisioner") {
        errors.push(forbidden("provisioner", "updates to provisioner are forbidden."));
    }
    if new.get("reclaimPolicy") != old.get("reclaimPolicy") {
        errors.push(forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."));
    }
    let key = "volumeBindingMode";
    immutable(key, new.get(key), old.get(key), errors);
}
