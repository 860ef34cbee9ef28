//! One policy rule against one request.

use serde_json::Value;

use super::{Attributes, items};

/// Whether the rule covers the request.
pub fn covers(rule: &Value, attributes: &Attributes<'_>) -> bool {
    if !has(rule, "verbs", |verb| verb == "*" || verb == attributes.verb) {
        return false;
    }
    if attributes.resource.is_empty() {
        return has(rule, "nonResourceURLs", |url| covers_path(url, attributes.path));
    }
    has(rule, "apiGroups", |group| group == "*" || group == attributes.group)
        && has(rule, "resources", |resource| covers_resource(resource, attributes))
        && (items(rule, "resourceNames").next().is_none()
            || has(rule, "resourceNames", |name| name == attributes.name))
}

fn covers_path(url: &str, path: &str) -> bool {
    url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}

fn covers_resource(resource: &str, attributes: &Attributes<'_>) -> bool {
    if resource == "*" {
        return true;
    }
    match resource.split_once('/') {
        None => attributes.subresource.is_empty() && resource == attributes.resource,
        Some((main, sub)) => {
            !attributes.subresource.is_empty()
                && sub == attributes.subresource
                && (main == "*" || main == attributes.resource)
        }
    }
}

fn has(rule: &Value, field: &str, is: impl Fn(&str) -> bool) -> bool {
    items(rule, field).filter_map(Value::as_str).any(is)
}
