//! Definitions that a sandbox begins with, and what the controllers that are here do to them.

use muster_sandbox::Sandbox;
use muster_sandbox::control::Which;
use serde_json::{Value, json};

use super::caller::*;

const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io";

/// A definition of JobSets that is not ours: it has a field that ours does not have.
fn other_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {
            "group": "jobset.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet", "listKind": "JobSetList"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"volumeClaimPolicies": {"type": "array", "items": {"type": "string"}}}}}}}}],
        },
    })
}

fn set(name: &str) -> Value {
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": template}]}})
}

#[tokio::test]
async fn without_its_controller_nobody_defaults_or_refuses_a_jobset() {
    let which = Which { jobset: false, ..Which::default() };
    let builder = Sandbox::builder().controllers(Some(which)).crd(other_definition());
    let sandbox = builder.start().await.unwrap();
    let made = post(&sandbox, SETS, &set("plain")).await.expect(201);
    assert!(made["spec"].get("successPolicy").is_none(), "nobody fills it in: {made}");
    let long = "a-name-that-is-so-long-that-the-names-of-its-pods-would-be-too-long-for-a-label";
    post(&sandbox, SETS, &set(long)).await.expect(201);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_definition_that_is_given_takes_the_place_of_ours() {
    let sandbox = Sandbox::builder().crd(other_definition()).start().await.unwrap();
    let served = get(&sandbox, DEFINITION).await.expect(200);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    assert!(served.pointer(&format!("{spec}/volumeClaimPolicies")).is_some(), "{served}");
    let made = post(&sandbox, SETS, &set("run")).await.expect(201);
    assert_eq!(made["spec"]["successPolicy"]["operator"], "All", "its controller is here: {made}");
    let jobs = "/apis/batch/v1/namespaces/default/jobs/run-node-0";
    eventually("its Job", async || get(&sandbox, jobs).await.code == 200).await;
    sandbox.stop().await;
}
