//! CustomResourceDefinitions: defaults and validation of the object itself.
//!
//! Kubernetes moves what is the same in all versions to the top before it checks, so that an error in
//! the only schema of a definition is reported at `spec.validation`. So do we.
//!
//! Left out: the estimate of what CEL rules may cost, and their static types beyond names of fields.

mod list_rules;
mod schema_rules;
mod versions;

#[cfg(test)]
mod tests;

use super::{names, path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

const APPROVED: &str = "api-approved.kubernetes.io";

/// Fills in what Kubernetes fills in: names, conversion, stored versions.
pub fn default_crd(crd: &mut Value) {
    let Some(root) = crd.as_object_mut() else { return };
    let Some(spec) = root.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let blank = |v: Option<&Value>| v.and_then(Value::as_str).unwrap_or_default().is_empty();
        if blank(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".to_owned(), json!(kind.to_lowercase()));
        }
        if blank(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".to_owned(), json!(format!("{kind}List")));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|c| c.get_mut("webhook"))
        .and_then(|w| w.get_mut("clientConfig"))
        .and_then(|c| c.get_mut("service"))
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert(json!(443));
    }
    let storage = spec
        .get("versions")
        .and_then(Value::as_array)
        .and_then(|versions| versions.iter().find(|v| v["storage"] == json!(true)))
        .and_then(|v| v.get("name").cloned());
    let status = root.entry("status").or_insert_with(|| json!({}));
    let stored = status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let (true, Some(name), Some(status)) = (stored, storage, status.as_object_mut()) {
        status.insert("storedVersions".to_owned(), json!([name]));
    }
}

/// Checks a CustomResourceDefinition that is created. It must have been defaulted.
pub fn validate_crd(crd: &Value) -> Vec<FieldError> {
    let spec = &crd["spec"];
    let mut errors = Vec::new();
    let name = text(&crd["metadata"], "name");
    let mut why = names::dns_1123_subdomain(name);
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        why.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    if name.is_empty() {
        errors.push(FieldError::new(
            Kind::Required,
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for why in why {
            errors.push(print::error(Kind::Invalid, "metadata.name", &json!(name), why));
        }
    }
    check_spec(spec, &mut errors);
    check_status(crd, &mut errors);
    check_approval(crd, &mut errors);
    errors
}

/// Checks a CustomResourceDefinition that is updated. `established` says that it is served already.
pub fn validate_crd_update(crd: &Value, old: &Value, established: bool) -> Vec<FieldError> {
    let (spec, old_spec) = (&crd["spec"], &old["spec"]);
    let mut errors = Vec::new();
    check_spec(spec, &mut errors);
    let mut immutable = |at: &str, new: &Value, old: &Value| {
        if new != old {
            errors.push(print::error(Kind::Invalid, at, new, "field is immutable"));
        }
    };
    if established {
        immutable("spec.scope", &spec["scope"], &old_spec["scope"]);
        immutable("spec.names.kind", &spec["names"]["kind"], &old_spec["names"]["kind"]);
    }
    immutable("spec.group", &spec["group"], &old_spec["group"]);
    immutable("spec.names.plural", &spec["names"]["plural"], &old_spec["names"]["plural"]);
    check_status(crd, &mut errors);
    errors
}

/// Text of a member, empty if absent.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(spec, "group");
    let why = names::dns_1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::new(Kind::Required, "spec.group", ""));
    } else if !why.is_empty() {
        errors.push(print::error(Kind::Invalid, "spec.group", &json!(group), why.join(",")));
    } else if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        errors.push(print::error(Kind::Invalid, "spec.group", &json!(group), why));
    }
    match text(spec, "scope") {
        "" => errors.push(FieldError::new(Kind::Required, "spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let known = ["Cluster", "Namespaced"];
            errors.push(print::unsupported("spec.scope", &json!(other), &known));
        }
    }
    versions::check(spec, errors);
    let names = &spec["names"];
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            let at = path::child("spec.names", name);
            errors.push(FieldError::new(Kind::Required, at, ""));
        }
    }
    check_names(names, "spec.names", errors);
    versions::check_shared(spec, errors);
    check_conversion(spec, errors);
}

fn check_names(names: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut label = |at: String, name: &str, mixed: bool| {
        let checked = if mixed { name.to_lowercase() } else { name.to_owned() };
        let why = names::dns_1035_label(&checked);
        if !name.is_empty() && !why.is_empty() {
            let prefix =
                if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            let why = format!("{prefix}{}", why.join(","));
            errors.push(print::error(Kind::Invalid, at, &json!(name), why));
        }
    };
    for (name, mixed) in
        [("plural", false), ("singular", false), ("kind", true), ("listKind", true)]
    {
        label(path::child(at, name), text(names, name), mixed);
    }
    for list in ["shortNames", "categories"] {
        for (i, name) in array(names, list).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            label(path::index(&path::child(at, list), i), name, false);
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(print::error(Kind::Invalid, path::child(at, "listKind"), &json!(kind), why));
    }
}

fn check_conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = spec.get("conversion").filter(|c| !c.is_null()) else { return };
    let at = "spec.conversion";
    let webhook = conversion.get("webhook").filter(|w| !w.is_null());
    let config = webhook.and_then(|w| w.get("clientConfig")).filter(|c| !c.is_null());
    let reviews = webhook.map_or(&[][..], |w| array(w, "conversionReviewVersions"));
    let config_at = path::child(at, "webhookClientConfig");
    let reviews_at = path::child(at, "conversionReviewVersions");
    match text(conversion, "strategy") {
        "" => errors.push(FieldError::new(Kind::Required, path::child(at, "strategy"), "")),
        "Webhook" => {
            let has = |name: &str| config.and_then(|c| c.get(name)).is_some_and(|v| !v.is_null());
            if config.is_none() {
                let why = "required when strategy is set to Webhook";
                errors.push(FieldError::new(Kind::Required, config_at, why));
            } else if has("url") == has("service") {
                let why = "exactly one of url or service is required";
                errors.push(FieldError::new(Kind::Required, config_at, why));
            }
            if reviews.is_empty() {
                errors.push(FieldError::new(Kind::Required, reviews_at, ""));
            } else if !reviews.iter().any(|v| v == "v1" || v == "v1beta1") {
                let why = "must include at least one of v1, v1beta1";
                errors.push(print::error(Kind::Invalid, reviews_at, &json!(reviews), why));
            }
        }
        other => {
            if other != "None" {
                let at = path::child(at, "strategy");
                errors.push(print::unsupported(at, &json!(other), &["None", "Webhook"]));
            }
            let why = "should not be set when strategy is not set to Webhook";
            if config.is_some() {
                errors.push(FieldError::new(Kind::Forbidden, config_at, why));
            }
            if !reviews.is_empty() {
                errors.push(FieldError::new(Kind::Forbidden, reviews_at, why));
            }
        }
    }
}

fn check_status(crd: &Value, errors: &mut Vec<FieldError>) {
    let stored = array(&crd["status"], "storedVersions");
    let at = "status.storedVersions";
    if stored.is_empty() {
        let bad = if crd["status"]["storedVersions"].is_array() { json!([]) } else { json!(null) };
        let why = "must have at least one stored version";
        errors.push(print::error(Kind::Invalid, at, &bad, why));
        return;
    }
    let versions = array(&crd["spec"], "versions");
    for version in versions {
        if version["storage"] == json!(true) && !stored.contains(&version["name"]) {
            let why = format!("must have the storage version {}", text(version, "name"));
            errors.push(print::error(Kind::Invalid, at, &json!(stored), why));
        }
    }
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|v| v["name"] == *name) {
            let shown = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {shown} and \
                 removes {shown} from status.storedVersions"
            );
            errors.push(print::error(Kind::Invalid, path::index(at, i), name, why));
        }
    }
}

/// Groups of Kubernetes itself need an approval.
fn check_approval(crd: &Value, errors: &mut Vec<FieldError>) {
    let group = text(&crd["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if protected {
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        let at = path::key("metadata.annotations", APPROVED);
        let approval = text(&crd["metadata"]["annotations"], APPROVED);
        let url = approval.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
        });
        if approval.is_empty() {
            let why =
                format!("protected groups must have approval annotation \"{APPROVED}\", {see}");
            errors.push(FieldError::new(Kind::Required, at, why));
        } else if !url && !approval.starts_with("unapproved") {
            let why = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a \
                 reason starting with \"unapproved\", {see}"
            );
            errors.push(print::error(Kind::Invalid, at, &json!(approval), why));
        }
    }
    if crd["spec"]["preserveUnknownFields"] == json!(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        let at = "spec.preserveUnknownFields";
        errors.push(print::error(Kind::Invalid, at, &json!(true), why));
    }
}
