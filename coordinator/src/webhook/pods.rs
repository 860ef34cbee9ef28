//! Pods of rank groups: what they need to wait for their table.

use muster_ranktable::inject::{self, Injection};

use super::{Answer, Request};
use crate::templates::Templates;

/// What is said to a new pod.
pub fn mutate(request: &Request, templates: &Templates, injection: &Injection) -> Answer {
    let Some(pod) = &request.object else { return Answer::allow() };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let pod = match serde_json::to_value(pod) {
        Ok(pod) => pod,
        Err(error) => {
            return Answer::Deny { code: 400, message: format!("the pod cannot be read: {error}") };
        }
    };
    let outcome = inject::mutate(&pod, namespace, |name| templates.get(name), injection);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refusal) => return Answer::Deny { code: 422, message: refusal.to_string() },
    };
    let warnings = outcome.warnings;
    if outcome.patch.is_empty() {
        return Answer::Allow { warnings };
    }
    match serde_json::from_value(serde_json::Value::Array(outcome.patch)) {
        Ok(patch) => Answer::Patch { patch, warnings },
        Err(error) => {
            Answer::Deny { code: 500, message: format!("the patch cannot be written: {error}") }
        }
    }
}
