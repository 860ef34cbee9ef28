//! What a container may ask for of a node.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::super::amount;
use super::super::field::{at, entries};
use super::super::metadata::{complain, invalid, required};
use super::super::names;

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

/// What a resource in a container may be called.
fn resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::qualified(name);
    let qualified = wrong.is_empty();
    complain(errors, field, name, wrong);
    let standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') {
        if !standard {
            if qualified
                && !matches!(name, "pods" | "services" | "secrets" | "configmaps" | "storage")
            {
                let detail = "must be a standard resource type or fully qualified";
                errors.push(invalid(field, &json!(name), detail));
            }
            let detail = "must be a standard resource for containers";
            errors.push(invalid(field, &json!(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(invalid(field, &json!(name), detail));
    }
}

/// Limits and requests of a container.
pub(super) fn validate(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let (limits, requests) = (["resources", "limits"], ["resources", "requests"]);
    for (list, path) in [("limits", limits), ("requests", requests)] {
        for (name, value) in entries(container, &path) {
            let item = format!("{field}.{list}[{name}]");
            resource_name(name, &item, errors);
            let text_value = value.as_str().unwrap_or_default();
            let quantity = amount::of(text_value);
            if quantity.nano() < 0 {
                errors.push(invalid(&item, value, "must be greater than or equal to 0"));
            }
            if is_extended(name) && !quantity.is_whole() {
                errors.push(invalid(&item, value, "must be an integer"));
            }
            if list == "limits" {
                continue;
            }
            let overcommit = is_native(name) && !name.starts_with("hugepages-");
            match at(container, &limits).and_then(|limits| limits.get(name)) {
                Some(limit) => {
                    let shown = limit.as_str().unwrap_or_default();
                    let most = amount::of(shown);
                    if quantity != most && !overcommit {
                        let detail = format!("must be equal to {name} limit of {shown}");
                        errors.push(invalid(&format!("{field}.requests"), value, detail));
                    } else if quantity > most {
                        let detail =
                            format!("must be less than or equal to {name} limit of {shown}");
                        errors.push(invalid(&format!("{field}.requests"), value, detail));
                    }
                }
                None if !overcommit => {
                    let detail = "Limit must be set for non overcommitable resources";
                    errors.push(required(format!("{field}.limits"), detail));
                }
                None => {}
            }
        }
    }
}
