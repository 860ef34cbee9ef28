//! Pods of rank groups: what they need to wait for their table.

use k8s_openapi::api::core::v1::Pod;
use muster_ranktable::inject::{self, Injection};

use crate::ranktables::member::Marks;
use crate::ranktables::templates::Templates;
use muster_serving::webhook::{Answer, Request};

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
    // A pod template can hardly be corrected once its job is there: better now than never.
    if let Ok(pod) = serde_json::from_value::<Pod>(pod)
        && let Marks { size: Err(problem), template: Some(_), .. } = Marks::of(&pod)
    {
        let name = pod.metadata.name.or(pod.metadata.generate_name).unwrap_or_default();
        return Answer::Deny { code: 422, message: format!("pod {namespace}/{name}: {problem}") };
    }
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
