//! Which requests a policy or a webhook is about.

use serde_json::Value;

/// What a request is aimed at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// API group, empty for core.
    pub group: &'a str,
    /// Version of the API.
    pub version: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource, empty for the object itself.
    pub subresource: &'a str,
    /// Name of the object; empty where it is not known yet.
    pub name: &'a str,
    /// Whether the object lives in a namespace.
    pub namespaced: bool,
}

/// Whether any of the rules (`rules` of a webhook, `resourceRules` of a policy) fits.
pub fn rules_match(rules: &Value, target: &Target<'_>) -> bool {
    rules.as_array().is_some_and(|rules| rules.iter().any(|rule| rule_matches(rule, target)))
}

/// Whether `matchConstraints` of a policy or `matchResources` of a binding fit: rules, exceptions and
/// selectors. Absent rules fit all. The closures evaluate a label selector on the namespace and on the
/// object (a selector fits if either the new or the old object does).
pub fn constraints_match(
    constraints: &Value,
    target: &Target<'_>,
    namespace: impl Fn(&Value) -> bool,
    object: impl Fn(&Value) -> bool,
) -> bool {
    let selects = |name: &str, test: &dyn Fn(&Value) -> bool| {
        constraints.get(name).filter(|s| !s.is_null()).is_none_or(test)
    };
    if !selects("namespaceSelector", &namespace) || !selects("objectSelector", &object) {
        return false;
    }
    if constraints.get("excludeResourceRules").is_some_and(|rules| rules_match(rules, target)) {
        return false;
    }
    match constraints.get("resourceRules").and_then(Value::as_array) {
        None => true,
        Some(rules) => rules.is_empty() || rules.iter().any(|rule| rule_matches(rule, target)),
    }
}

/// Whether the object is one of the admission configurations that admission never intercepts.
pub fn is_exempt(group: &str, resource: &str) -> bool {
    group == "admissionregistration.k8s.io"
        && matches!(
            resource,
            "validatingwebhookconfigurations"
                | "mutatingwebhookconfigurations"
                | "validatingadmissionpolicies"
                | "validatingadmissionpolicybindings"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
        )
}

fn rule_matches(rule: &Value, target: &Target<'_>) -> bool {
    let list = |name: &str| rule.get(name).and_then(Value::as_array).into_iter().flatten();
    let any = |name: &str, wanted: &str| {
        list(name).filter_map(Value::as_str).any(|item| item == "*" || item == wanted)
    };
    let mut names = list("resourceNames").filter_map(Value::as_str).peekable();
    let named = names.peek().is_none() || names.any(|name| name == target.name);
    named
        && scope_matches(rule, target)
        && any("operations", target.operation)
        && any("apiGroups", target.group)
        && any("apiVersions", target.version)
        && list("resources").filter_map(Value::as_str).any(|item| {
            let (resource, subresource) = item.split_once('/').unwrap_or((item, ""));
            (resource == "*" || resource == target.resource)
                && (subresource == "*" || subresource == target.subresource)
        })
}

fn scope_matches(rule: &Value, target: &Target<'_>) -> bool {
    let namespaces = target.group.is_empty() && target.resource == "namespaces";
    match rule.get("scope").and_then(Value::as_str) {
        None | Some("*") => true,
        Some("Namespaced") => target.namespaced && !namespaces,
        Some("Cluster") => !target.namespaced || namespaces,
        Some(_) => false,
    }
}
