//! ModelServings of both shapes: what cannot work is refused when it is written.
//!
//! ```text
//!   unreadable ──▶ 400, with the field      wrong ──▶ 403, all that is wrong      odd annotation ──▶ a warning
//! ```
//!
//! What the API server's schema finds never comes here. Texts for Kthena's shape are those that its clients know.
//! Annotations of rank tables never refuse an object, since its pods can run without a table: they become a condition.

use kube::core::admission::Operation;
use muster_modelserving::ranktable::Ranktables;
use muster_modelserving::shape::{Serving, Shape};
use muster_modelserving::validate::message;

use crate::workloads::{queues, typos};
use muster_serving::webhook::{Answer, Request};

/// Where the API server asks.
pub const PATH: &str = "/validate-modelservings";

/// The same, with a warning if its queue is none that the scheduler of its pods reads.
pub fn validate_with_queue(request: &Request, schedulers: &[String]) -> Answer {
    queues::warn(validate(request), request, schedulers)
}

/// What is said to a ModelServing that is created or changed.
pub fn validate(request: &Request) -> Answer {
    let asked = matches!(request.operation, Operation::Create | Operation::Update);
    if !asked || request.sub_resource.as_ref().is_some_and(|sub| !sub.is_empty()) {
        return Answer::allow();
    }
    let Some(object) = &request.object else { return refuse(400, "there is no object to look at") };
    // Whoever removes a finalizer from what is to go must succeed, however wrong the object is.
    if object.metadata.deletion_timestamp.is_some() {
        return Answer::allow();
    }
    let raw = match serde_json::to_value(object) {
        Ok(raw) => raw,
        Err(error) => return refuse(400, format!("the ModelServing cannot be read: {error}")),
    };
    let serving = match Serving::read(&raw) {
        Ok(serving) => serving,
        Err(why) => return refuse(400, why),
    };
    let errors = serving.validate();
    if errors.is_empty() {
        let mut warnings = warnings(serving);
        return match typos::judge(request, &raw) {
            Ok(more) => {
                warnings.extend(more);
                Answer::Allow { warnings }
            }
            Err(refused) => refused,
        };
    }
    match serving.shape() {
        Shape::Kthena => refuse(403, message(&errors)),
        Shape::Short => {
            let lines = errors.iter().map(|error| format!("\n  - {error}; {}", error.remedy));
            refuse(403, format!("{}{}", message(&[]), lines.collect::<String>()))
        }
    }
}

/// What will be a condition later.
fn warnings(serving: Serving) -> Vec<String> {
    let shape = serving.shape();
    let read = Ranktables::read(&serving.into_model_serving(), shape, None);
    read.err().iter().map(ToString::to_string).collect()
}

fn refuse(code: u16, message: impl ToString) -> Answer {
    Answer::Deny { code, message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SHIPPED: &str = include_str!("../../../../deploy/coordinator/webhook.yaml");

    fn kthena() -> Value {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "vllm:1"}]}});
        let role = json!({"name": "decode", "replicas": 1, "workerReplicas": 0,
            "entryTemplate": pod, "maxUnavailable": 1});
        json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
            "metadata": {"name": "llm", "namespace": "serve"},
            "spec": {"replicas": 1, "template": {"roles": [role]}, "recoveryPolicy": "RoleRecreate"}})
    }

    fn seed() -> Value {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "mindie:1"}]}});
        json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
            "metadata": {"name": "qwen", "namespace": "serve"},
            "spec": {"roles": [{"name": "worker", "replicas": 2, "template": pod}]}})
    }

    fn request(operation: &str, object: &Value) -> Request {
        let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
        serde_json::from_value(json!({
            "uid": "u1",
            "kind": {"group": group, "version": "v1alpha1", "kind": "ModelServing"},
            "resource": {"group": group, "version": "v1alpha1", "resource": "modelservings"},
            "operation": operation, "userInfo": {}, "namespace": "serve",
            "name": object["metadata"]["name"], "object": object, "oldObject": null,
        }))
        .unwrap()
    }

    fn answer(object: &Value) -> Answer {
        let created = validate(&request("CREATE", object));
        assert_eq!(created, validate(&request("UPDATE", object)), "both are asked the same");
        created
    }

    fn denied(object: &Value) -> (u16, String) {
        match answer(object) {
            Answer::Deny { code, message } => (code, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_right_is_allowed_without_a_word() {
        for object in [kthena(), seed()] {
            assert_eq!(answer(&object), Answer::allow());
        }
    }

    #[test]
    fn of_kthenas_shape_all_that_is_wrong_is_said_in_its_words() {
        let mut object = kthena();
        object["spec"]["replicas"] = json!(-1);
        object["spec"]["template"]["roles"][0]["workerReplicas"] = json!(2);
        let (code, message) = denied(&object);
        assert_eq!(code, 403);
        let mut lines = message.lines();
        assert_eq!(lines.next(), Some("validation failed:"));
        let lines: Vec<&str> = lines.collect();
        assert!(lines.iter().all(|line| line.starts_with("  - ")), "{message}");
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("  - spec.replicas: Invalid value: -1: "), "{message}");
        assert!(has("  - spec.template.roles[0].workerTemplate: Required value: "), "{message}");
        let serving = Serving::read(&object).unwrap();
        assert_eq!(message, super::message(&serving.validate()));
    }

    #[test]
    fn of_the_seeds_shape_each_line_has_its_remedy() {
        let mut object = seed();
        object["spec"]["roles"] = json!([]);
        assert_eq!(
            denied(&object),
            (
                403,
                "validation failed:\n  - spec.roles: Required value: there must be at least one role; \
                 write a role with a name and a template"
                    .to_owned()
            )
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_bad_request_that_names_the_field() {
        let mut object = kthena();
        object["spec"]["replicas"] = json!("two");
        let (code, message) = denied(&object);
        assert_eq!(code, 400);
        let known = "ModelServing serve/llm cannot be read: spec.replicas: ";
        assert!(message.starts_with(known), "{message}");
        object = seed();
        object["apiVersion"] = json!("workload.kthena.io/v2");
        assert!(denied(&object).1.contains("apiVersion: use workload.serving"));
        let mut nothing = request("CREATE", &object);
        nothing.object = None;
        assert!(matches!(validate(&nothing), Answer::Deny { code: 400, .. }));
    }

    #[test]
    fn a_wrong_annotation_of_rank_tables_is_a_warning() {
        for mut object in [kthena(), seed()] {
            object["metadata"]["annotations"] = json!({"kthena.io/ranktable-level": "rack"});
            assert_eq!(answer(&object), Answer::allow(), "without a template there are no tables");
            object["metadata"]["annotations"]["kthena.io/ranktable-template"] = json!("t");
            let Answer::Allow { warnings } = answer(&object) else { panic!("refused") };
            let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(warning.contains(&format!("serve/{name}")), "{warning}");
            assert!(warning.contains("\"rack\"; use role or group"), "{warning}");
        }
    }

    #[test]
    fn what_goes_and_what_is_no_object_of_ours_is_left_alone() {
        let mut object = seed();
        object["spec"]["roles"] = json!([]);
        assert_eq!(validate(&request("DELETE", &object)), Answer::allow());
        let mut scale = request("UPDATE", &object);
        scale.sub_resource = Some("scale".to_owned());
        assert_eq!(validate(&scale), Answer::allow());
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(answer(&object), Answer::allow());
    }

    #[test]
    fn the_shipped_configuration_asks_here_about_both_shapes_and_not_about_their_status() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        let is_ours = |document: &&Value| document["kind"] == "ValidatingWebhookConfiguration";
        let [ours] = documents.iter().filter(is_ours).collect::<Vec<_>>()[..] else {
            panic!("not one")
        };
        assert_eq!(ours["metadata"]["annotations"][muster_serving::names::INJECT_CA], "true");
        let webhooks = ours["webhooks"].as_array().unwrap().iter();
        let path = |webhook: &&Value| webhook["clientConfig"]["service"]["path"] == PATH;
        let [webhook] = webhooks.filter(path).collect::<Vec<_>>()[..] else { panic!("not one") };
        assert_eq!(webhook["failurePolicy"], "Fail");
        let groups = Shape::ALL.map(Shape::group);
        let versions = ["v1alpha1"];
        let versioned = |group: &str| format!("{group}/{}", versions[0]);
        assert_eq!(groups.map(versioned), Shape::ALL.map(|shape| shape.api_version().to_owned()));
        assert_eq!(
            webhook["rules"],
            json!([{"apiGroups": groups, "apiVersions": versions, "resources": ["modelservings"],
                "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}])
        );
    }
}
