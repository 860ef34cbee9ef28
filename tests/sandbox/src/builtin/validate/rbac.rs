//! Roles and bindings.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::{RBAC, selector};
use crate::builtin::NameRule;
use crate::builtin::field::{at, list, text};
use crate::builtin::metadata::{complain, invalid, not_supported, required};
use crate::builtin::names;

/// Rules of a role, and the selectors of an aggregated one.
pub(super) fn rules(role: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    for (place, rule) in list(role, &["rules"]).iter().enumerate() {
        let field = format!("rules[{place}]");
        if list(rule, &["verbs"]).is_empty() {
            errors
                .push(required(format!("{field}.verbs"), "verbs must contain at least one value"));
        }
        let urls = list(rule, &["nonResourceURLs"]);
        if urls.is_empty() {
            for (key, detail) in [
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ] {
                if list(rule, &[key]).is_empty() {
                    errors.push(required(format!("{field}.{key}"), detail));
                }
            }
            continue;
        }
        let field = format!("{field}.nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(invalid(&field, &json!(urls), detail));
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|key| !list(rule, &[key]).is_empty())
        {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(invalid(&field, &json!(urls), detail));
        }
    }
    if at(role, &["aggregationRule"]).is_some() {
        let selectors = list(role, &["aggregationRule", "clusterRoleSelectors"]);
        if selectors.is_empty() {
            errors.push(required(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ));
        }
        for (place, one) in selectors.iter().enumerate() {
            let field = format!("aggregationRule.clusterRoleSelectors[{place}]");
            selector::check(one, &field, errors);
        }
    }
}

/// Role and subjects of a binding.
pub(super) fn binding(binding: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let group = text(binding, &["roleRef", "apiGroup"]);
    if group != RBAC {
        errors.push(not_supported("roleRef.apiGroup", group, &[RBAC]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(binding, &["roleRef", "kind"]);
    if !kinds.contains(&kind) {
        errors.push(not_supported("roleRef.kind", kind, kinds));
    }
    let name = text(binding, &["roleRef", "name"]);
    if name.is_empty() {
        errors.push(required("roleRef.name", ""));
    } else {
        let wrong = names::check(NameRule::PathSegment, name, false);
        complain(errors, "roleRef.name", name, wrong);
    }
    for (place, one) in list(binding, &["subjects"]).iter().enumerate() {
        subject(one, namespaced, &format!("subjects[{place}]"), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, field: &str, errors: &mut Vec<FieldError>) {
    let name = text(subject, &["name"]);
    if name.is_empty() {
        errors.push(required(format!("{field}.name"), ""));
    }
    let group = text(subject, &["apiGroup"]);
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                complain(errors, &format!("{field}.name"), name, names::subdomain(name));
            }
            if !group.is_empty() {
                errors.push(not_supported(&format!("{field}.apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, &["namespace"]).is_empty() {
                errors.push(required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != RBAC {
                errors.push(not_supported(&format!("{field}.apiGroup"), group, &[RBAC]));
            }
        }
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(not_supported(&format!("{field}.kind"), other, &kinds));
        }
    }
}

/// A binding keeps its role.
pub(super) fn binding_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if new.get("roleRef") != old.get("roleRef") {
        let part = |key: &str| json!(text(new, &["roleRef", key]));
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            part("apiGroup"),
            part("kind"),
            part("name")
        );
        let mut error = invalid("roleRef", &Value::Null, "cannot change roleRef");
        error.bad_value = muster_kube::BadValue::Printed(shown);
        errors.push(error);
    }
}
