//! DIJobs: a policy is filled in, and what cannot work is refused when it is written.
//!
//! Paths and texts are those that users of the DI orchestrator know.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use kube::core::admission::Operation;
use muster_dijob::admission;
use serde_json::Value;

use crate::workloads::{queues, typos};
use muster_serving::webhook::{Answer, Request};

/// Where the API server asks what is to be filled in.
pub const MUTATE: &str = "/mutate-diengine-opendilab-org-v1alpha1-dijob";

/// Where the API server asks whether a job is right.
pub const VALIDATE: &str = "/validate-diengine-opendilab-org-v1alpha1-dijob";

/// Where the API server asks whether the template of aggregators is right.
pub const VALIDATE_CONFIG: &str = "/validate-diengine-opendilab-org-v1alpha1-aggregatorconfig";

/// What is filled in.
pub fn mutate(request: &Request) -> Answer {
    let Some(job) = asked(request) else { return Answer::allow() };
    match admission::policy(&job) {
        Some(policy) => {
            let path = PointerBuf::from_tokens(["spec", "cleanPodPolicy"]);
            let add = AddOperation { path, value: policy.into() };
            Answer::Patch { patch: Patch(vec![PatchOperation::Add(add)]), warnings: Vec::new() }
        }
        None => Answer::allow(),
    }
}

/// The same, with a warning if its queue is none that the scheduler of its pods reads.
pub fn validate_with_queue(request: &Request, schedulers: &[String]) -> Answer {
    queues::warn(validate(request), request, schedulers)
}

/// Whether it is right.
pub fn validate(request: &Request) -> Answer {
    let Some(job) = asked(request) else { return Answer::allow() };
    match admission::refusal(&job) {
        Some(message) => Answer::Deny { code: 403, message },
        None => match typos::judge(request, &job) {
            Ok(mut warnings) => {
                warnings.extend(admission::warnings(&job));
                Answer::Allow { warnings }
            }
            Err(refused) => refused,
        },
    }
}

/// Whether an AggregatorConfig is right.
pub fn validate_config(request: &Request) -> Answer {
    let Some(config) = asked(request) else { return Answer::allow() };
    match typos::judge(request, &config) {
        Ok(warnings) => Answer::Allow { warnings },
        Err(refused) => refused,
    }
}

/// The object; none if it goes, or if this is about a part of it.
fn asked(request: &Request) -> Option<Value> {
    let asked = matches!(request.operation, Operation::Create | Operation::Update);
    let part = request.sub_resource.as_ref().is_some_and(|sub| !sub.is_empty());
    let object = request.object.as_ref().filter(|_| asked && !part)?;
    // Whoever removes a finalizer from what is to go must succeed, however wrong the object is.
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    serde_json::to_value(object).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHIPPED: &str = include_str!("../../../../deploy/coordinator/webhook-dijob.yaml");

    fn request(operation: &str, spec: &Value) -> Request {
        let kind =
            json!({"group": "diengine.opendilab.org", "version": "v1alpha1", "kind": "DIJob"});
        let object = json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob",
            "metadata": {"name": "cartpole", "namespace": "rl"}, "spec": spec});
        serde_json::from_value(json!({
            "uid": "u1", "kind": kind,
            "resource": {"group": "diengine.opendilab.org", "version": "v1alpha1", "resource": "dijobs"},
            "operation": operation, "userInfo": {}, "namespace": "rl", "name": "cartpole",
            "object": object, "oldObject": null,
        }))
        .unwrap()
    }

    fn spec(policy: &str) -> Value {
        let replica = json!({"template": {"spec": {"containers": [{"name": "di-container"}]}}});
        json!({"cleanPodPolicy": policy, "coordinator": replica})
    }

    #[test]
    fn a_policy_is_filled_in_and_a_wrong_one_is_refused() {
        let Answer::Patch { patch, .. } = mutate(&request("CREATE", &spec("ALL"))) else {
            panic!("none")
        };
        let patch = serde_json::to_value(patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/spec/cleanPodPolicy", "value": "All"}]));
        assert_eq!(mutate(&request("CREATE", &spec("All"))), Answer::allow());
        let message = "Invalid CleanPodPolicy hello, expected in [None, Running, All]".to_owned();
        let refused = Answer::Deny { code: 403, message };
        assert_eq!(validate(&request("CREATE", &spec("hello"))), refused);
        assert_eq!(validate(&request("UPDATE", &spec("hello"))), refused);
        assert_eq!(validate(&request("DELETE", &spec("hello"))), Answer::allow());
        assert_eq!(validate(&request("CREATE", &spec(""))), Answer::allow());
    }

    #[test]
    fn the_shipped_configuration_asks_here() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        let found: Vec<_> = documents
            .iter()
            .flat_map(|document| document["webhooks"].as_array().unwrap())
            .map(|webhook| {
                (webhook["name"].clone(), webhook["clientConfig"]["service"]["path"].clone())
            })
            .collect();
        let expected = [
            ("mdijob.kb.io", MUTATE),
            ("vdijob.kb.io", VALIDATE),
            ("vaggregatorconfig.kb.io", VALIDATE_CONFIG),
        ];
        assert_eq!(found, expected.map(|(name, path)| (json!(name), json!(path))));
        let marked = |document: &Value| {
            document["metadata"]["annotations"][muster_serving::names::INJECT_CA] == "true"
        };
        assert!(documents.iter().all(marked));
    }
}
