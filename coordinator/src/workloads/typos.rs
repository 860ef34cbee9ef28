//! Fields of pod templates that Kubernetes does not know: typing errors are refused, others are warned of.

use muster_modelserving::pod_fields::{self, Verdict};
use serde_json::Value;

use muster_serving::webhook::{Answer, Request};

/// The warnings, or why the object is refused.
pub(super) fn judge(request: &Request, object: &Value) -> Result<Vec<String>, Answer> {
    let old = request.old_object.as_ref().and_then(|old| serde_json::to_value(old).ok());
    let Verdict { errors, warnings } = pod_fields::judge(object, old.as_ref());
    match errors.is_empty() {
        true => Ok(warnings.iter().map(ToString::to_string).collect()),
        false => Err(Answer::Deny { code: 403, message: pod_fields::refusal(object, &errors) }),
    }
}
