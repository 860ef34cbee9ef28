//! Rules and selectors of webhooks and policies.

use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

use super::{invalid, items, one_of, text, unsupported};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// One rule: operations, groups, versions, resources, scope.
pub(super) fn check(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let list = |field: &str| -> Vec<&str> {
        items(&rule[field]).map(|item| item.as_str().unwrap_or_default()).collect()
    };
    for (field, what) in
        [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")]
    {
        let (given, at) = (list(field), format!("{at}.{field}"));
        if given.is_empty() {
            errors.push(FieldError::new(Kind::Required, at.as_str(), ""));
        }
        if given.len() > 1 && given.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(invalid(at.as_str(), &rule[field], detail));
        }
        for (place, item) in given.iter().enumerate() {
            let at = format!("{at}[{place}]");
            match field {
                "operations" if !OPERATIONS.contains(item) => {
                    errors.push(unsupported(at, item, &OPERATIONS));
                }
                "apiVersions" if item.is_empty() => {
                    errors.push(FieldError::new(Kind::Required, at, ""));
                }
                _ => {}
            }
        }
    }
    resources(&list("resources"), &format!("{at}.resources"), errors);
    one_of(rule, at, "scope", &["*", "Cluster", "Namespaced"], errors);
}

fn resources(given: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::new(Kind::Required, at, ""));
    }
    let (mut any_sub, mut any_main, mut plain) = (Vec::new(), Vec::new(), false);
    for (place, item) in given.iter().enumerate() {
        let here = format!("{at}[{place}]");
        if item.is_empty() {
            errors.push(FieldError::new(Kind::Required, here, ""));
            continue;
        }
        let Some((main, sub)) = item.split_once('/') else {
            plain = *item != "*";
            continue;
        };
        if any_sub.contains(&main) {
            let detail = format!("if '{main}/*' is present, must not specify {item}");
            errors.push(invalid(here.as_str(), &json!(item), detail));
        }
        if any_main.contains(&sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {item}");
            errors.push(invalid(here.as_str(), &json!(item), detail));
        }
        if sub == "*" {
            any_sub.push(main);
        }
        if main == "*" {
            any_main.push(sub);
        }
    }
    if given.len() > 1 && given.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(invalid(at, &json!(given), detail));
    }
    if given.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(invalid(at, &json!(given), detail));
    }
}

/// The match criteria of a policy or a binding.
pub(super) fn check_match(criteria: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if !criteria.is_object() {
        return;
    }
    one_of(criteria, at, "matchPolicy", &["Equivalent", "Exact"], errors);
    for field in ["namespaceSelector", "objectSelector"] {
        check_selector(&criteria[field], &format!("{at}.{field}"), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (place, rule) in items(&criteria[field]).enumerate() {
            check(rule, &format!("{at}.{field}[{place}]"), errors);
        }
    }
}

/// The expressions of a label selector.
pub(super) fn check_selector(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (place, expression) in items(&selector["matchExpressions"]).enumerate() {
        let at = format!("{at}.matchExpressions[{place}]");
        let values = items(&expression["values"]).count();
        match text(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::new(Kind::Required, format!("{at}.values"), detail));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::new(Kind::Forbidden, format!("{at}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(invalid(format!("{at}.operator"), &json!(other), detail));
            }
        }
    }
}
