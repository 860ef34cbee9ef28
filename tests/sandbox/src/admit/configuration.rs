//! Defaults and validation of the kinds that configure admission.

use muster_kube::{FieldError, FieldErrorKind as Kind};
use muster_objects::meta;
use muster_objects::policy::{MatchConditions, Policy};
use serde_json::{Map, Value, json};

mod client;
mod names;
mod rules;
#[cfg(test)]
mod tests;

const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// Fills in the defaults of a webhook configuration, a policy or a binding.
pub fn default_configuration(object: &mut Value, kind: &str) {
    match kind {
        MUTATING | VALIDATING => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                default_webhook(meta::as_map(webhook), kind == MUTATING);
            }
        }
        POLICY => {
            let spec = meta::field(object, "spec");
            default(spec, "failurePolicy", json!("Fail"));
            default_match(spec, "matchConstraints");
        }
        BINDING => default_match(meta::field(object, "spec"), "matchResources"),
        _ => {}
    }
}

fn default_webhook(webhook: &mut Map<String, Value>, mutating: bool) {
    default(webhook, "failurePolicy", json!("Fail"));
    default(webhook, "matchPolicy", json!("Equivalent"));
    default(webhook, "namespaceSelector", json!({}));
    default(webhook, "objectSelector", json!({}));
    default(webhook, "timeoutSeconds", json!(10));
    if mutating {
        default(webhook, "reinvocationPolicy", json!("Never"));
    }
    default_scopes(webhook, "rules");
    let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        default(service, "port", json!(443));
    }
}

fn default_match(spec: &mut Map<String, Value>, field: &str) {
    let Some(criteria) = spec.get_mut(field).and_then(Value::as_object_mut) else { return };
    default(criteria, "matchPolicy", json!("Equivalent"));
    default(criteria, "namespaceSelector", json!({}));
    default(criteria, "objectSelector", json!({}));
    default_scopes(criteria, "resourceRules");
    default_scopes(criteria, "excludeResourceRules");
}

fn default_scopes(parent: &mut Map<String, Value>, field: &str) {
    for rule in parent.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
        default(meta::as_map(rule), "scope", json!("*"));
    }
}

fn default(map: &mut Map<String, Value>, field: &str, value: Value) {
    let present = map.entry(field).or_insert(Value::Null);
    if present.is_null() {
        *present = value;
    }
}

/// What is wrong with a webhook configuration, a policy or a binding, after its defaults are set.
pub fn validate_configuration(object: &Value, kind: &str) -> Vec<FieldError> {
    match kind {
        MUTATING | VALIDATING => validate_webhooks(object, kind == MUTATING),
        POLICY => {
            let mut errors = Vec::new();
            let constraints = &object["spec"]["matchConstraints"];
            rules::check_match(constraints, "spec.matchConstraints", &mut errors);
            errors.extend(Policy::compile(object).err().unwrap_or_default());
            errors
        }
        BINDING => validate_binding(object),
        _ => Vec::new(),
    }
}

fn validate_webhooks(object: &Value, mutating: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (place, webhook) in items(&object["webhooks"]).enumerate() {
        let at = format!("webhooks[{place}]");
        validate_webhook(webhook, &at, mutating, &mut errors);
        review_versions(webhook, &format!("{at}.admissionReviewVersions"), &mut errors);
        let name = text(webhook, "name");
        if !name.is_empty() && seen.contains(&name) {
            let at = format!("{at}.name");
            errors.push(FieldError::with_value(Kind::Duplicate, at, &json!(name), ""));
        }
        seen.push(name);
    }
    errors
}

fn validate_webhook(webhook: &Value, at: &str, mutating: bool, errors: &mut Vec<FieldError>) {
    names::check_qualified(text(webhook, "name"), &format!("{at}.name"), errors);
    for (place, rule) in items(&webhook["rules"]).enumerate() {
        rules::check(rule, &format!("{at}.rules[{place}]"), errors);
    }
    one_of(webhook, at, "failurePolicy", &["Fail", "Ignore"], errors);
    one_of(webhook, at, "matchPolicy", &["Equivalent", "Exact"], errors);
    let harmless = ["None", "NoneOnDryRun"];
    if webhook["sideEffects"].is_null() {
        let detail = format!("must specify one of {}", harmless.join(", "));
        errors.push(FieldError::new(Kind::Required, format!("{at}.sideEffects"), detail));
    }
    one_of(webhook, at, "sideEffects", &harmless, errors);
    let timeout = &webhook["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|timeout| !(1..=30).contains(&timeout)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(invalid(format!("{at}.timeoutSeconds"), timeout, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        rules::check_selector(&webhook[field], &format!("{at}.{field}"), errors);
    }
    if mutating {
        one_of(webhook, at, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
    }
    client::check(&webhook["clientConfig"], &format!("{at}.clientConfig"), errors);
    let conditions =
        MatchConditions::compile(&webhook["matchConditions"], &format!("{at}.matchConditions"));
    errors.extend(conditions.err().unwrap_or_default());
}

fn review_versions(webhook: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let versions: Vec<&str> =
        items(&webhook["admissionReviewVersions"]).filter_map(Value::as_str).collect();
    if versions.is_empty() {
        let detail = "must specify one of v1, v1beta1";
        errors.push(FieldError::new(Kind::Required, at, detail));
        return;
    }
    for (place, version) in versions.iter().enumerate() {
        if versions[..place].contains(version) {
            let at = format!("{at}[{place}]");
            errors.push(invalid(at, &json!(version), "duplicate version"));
        } else if let Some(why) = names::label_1035_error(version) {
            errors.push(invalid(format!("{at}[{place}]"), &json!(version), why));
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        errors.push(invalid(at, &json!(versions), "must include at least one of v1, v1beta1"));
    }
}

fn validate_binding(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    if text(spec, "policyName").is_empty() {
        errors.push(FieldError::new(Kind::Required, "spec.policyName", ""));
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        let at = "spec.paramRef";
        let (named, selected) =
            (!text(reference, "name").is_empty(), reference["selector"].is_object());
        if named && selected {
            for field in ["name", "selector"] {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::new(Kind::Forbidden, format!("{at}.{field}"), detail));
            }
        } else if !named && !selected {
            let detail = "one of name or selector must be specified";
            errors.push(FieldError::new(Kind::Required, at, detail));
        }
        if reference["parameterNotFoundAction"].is_null() {
            let at = format!("{at}.parameterNotFoundAction");
            errors.push(FieldError::new(Kind::Required, at, ""));
        }
        one_of(reference, at, "parameterNotFoundAction", &["Deny", "Allow"], &mut errors);
    }
    rules::check_match(&spec["matchResources"], "spec.matchResources", &mut errors);
    let at = "spec.validationActions";
    let actions: Vec<&str> = items(&spec["validationActions"]).filter_map(Value::as_str).collect();
    for (place, action) in actions.iter().enumerate() {
        let at = format!("{at}[{place}]");
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(unsupported(at.clone(), action, &["Audit", "Deny", "Warn"]));
        }
        if actions[..place].contains(action) {
            errors.push(FieldError::with_value(Kind::Duplicate, at, &json!(action), ""));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(invalid(at, &json!(actions), detail));
    }
    if actions.is_empty() {
        let detail = "at least one validation action is required";
        errors.push(FieldError::new(Kind::Required, at, detail));
    }
    errors
}

fn one_of(parent: &Value, at: &str, field: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    let Some(value) = parent[field].as_str() else { return };
    if !allowed.contains(&value) {
        errors.push(unsupported(format!("{at}.{field}"), value, allowed));
    }
}

fn unsupported(at: String, value: &str, allowed: &[&str]) -> FieldError {
    let allowed: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
    let detail = format!("supported values: {}", allowed.join(", "));
    FieldError::with_value(Kind::NotSupported, at, &json!(value), detail)
}

fn invalid(at: impl Into<String>, value: &Value, detail: impl Into<String>) -> FieldError {
    FieldError::with_value(Kind::Invalid, at, value, detail)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
