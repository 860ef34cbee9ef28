//! Protobuf at every place of the server that reads a body.

use http::Request;
use serde_json::{Value, json};

use super::SAMPLES;
use crate::Sandbox;

/// Sends a body; the answer, or the code and the message of a refusal.
async fn send(
    sandbox: &Sandbox,
    method: &str,
    path: &str,
    media: &str,
    body: Vec<u8>,
) -> Result<Value, (u16, String)> {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    match sandbox.client().request(request.body(body).unwrap()).await {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

async fn sample(
    sandbox: &Sandbox,
    method: &str,
    path: &str,
    kind: &str,
) -> Result<Value, (u16, String)> {
    let (body, _) = SAMPLES.iter().rfind(|(_, object)| object["kind"] == kind).unwrap();
    send(sandbox, method, path, "application/vnd.kubernetes.protobuf", body.clone()).await
}

async fn create(sandbox: &Sandbox, path: &str, object: Value) {
    let body = serde_json::to_vec(&object).unwrap();
    send(sandbox, "POST", path, "application/json", body).await.unwrap();
}

async fn furnished() -> Sandbox {
    let gadgets = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let sandbox = Sandbox::builder().controllers(None).crd(gadgets).start().await.unwrap();
    let containers = json!([{"name": "c", "image": "i"}]);
    create(&sandbox, "/api/v1/namespaces", json!({"metadata": {"name": "lab"}})).await;
    let lab = "/api/v1/namespaces/lab";
    create(&sandbox, &format!("{lab}/serviceaccounts"), json!({"metadata": {"name": "default"}}))
        .await;
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"containers": containers}});
    create(&sandbox, &format!("{lab}/pods"), pod).await;
    let deployment = json!({"metadata": {"name": "scale"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}}});
    create(&sandbox, "/apis/apps/v1/namespaces/lab/deployments", deployment).await;
    sandbox
}

#[tokio::test]
async fn every_endpoint_reads_protobuf() {
    let sandbox = furnished().await;
    let lab = "/api/v1/namespaces/lab";
    let map = sample(&sandbox, "POST", &format!("{lab}/configmaps"), "ConfigMap").await.unwrap();
    assert_eq!(map["data"], json!({"a": "1", "b": ""}));

    sample(&sandbox, "POST", &format!("{lab}/pods/pod/binding"), "Binding").await.unwrap();
    let pod = format!("{lab}/pods/pod");
    let bound = send(&sandbox, "GET", &pod, "", Vec::new()).await.unwrap();
    assert_eq!(bound["spec"]["nodeName"], "node-1");
    let evicted = sample(&sandbox, "POST", &format!("{pod}/eviction"), "Eviction").await.unwrap();
    assert_eq!(evicted["status"], "Success");

    let token = format!("{lab}/serviceaccounts/default/token");
    let token = sample(&sandbox, "POST", &token, "TokenRequest").await.unwrap();
    assert_eq!(token["spec"]["audiences"], json!(["lab"]));

    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = sample(&sandbox, "POST", review, "SelfSubjectAccessReview").await.unwrap();
    assert_eq!(review["status"]["allowed"], true);

    let deployment = "/apis/apps/v1/namespaces/lab/deployments/scale";
    sample(&sandbox, "PUT", &format!("{deployment}/scale"), "Scale").await.unwrap();
    let scaled = send(&sandbox, "GET", deployment, "", Vec::new()).await.unwrap();
    assert_eq!(scaled["spec"]["replicas"], 3);
    let (code, message) =
        sample(&sandbox, "DELETE", deployment, "DeleteOptions").await.unwrap_err();
    assert_eq!(code, 409, "the options ask for another version: {message}");
}

#[tokio::test]
async fn a_definition_in_protobuf_is_served() {
    let sandbox = furnished().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = sample(&sandbox, "POST", definitions, "CustomResourceDefinition").await.unwrap();
    let schema = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(schema["properties"]["size"]["maximum"], 2.5);
    assert_eq!(schema["properties"]["labels"]["additionalProperties"], json!({"type": "string"}));
    let widgets = "/apis/example.com/v1/namespaces/lab/widgets";
    let widget = |spec: Value| {
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        serde_json::to_vec(&widget).unwrap()
    };
    let refused = widget(json!({"size": 1, "color": "green"}));
    let (code, message) =
        send(&sandbox, "POST", widgets, "application/json", refused).await.unwrap_err();
    assert_eq!(code, 422, "{message}");
    let made =
        send(&sandbox, "POST", widgets, "application/json", widget(json!({}))).await.unwrap();
    assert_eq!(made["spec"]["size"], 1, "the default is there");
}

#[tokio::test]
async fn custom_resources_have_no_protobuf() {
    let sandbox = furnished().await;
    let gadgets = "/apis/example.com/v1/namespaces/lab/gadgets";
    let (code, message) = sample(&sandbox, "POST", gadgets, "ConfigMap").await.unwrap_err();
    assert_eq!(code, 415);
    assert!(message.ends_with("application/json, application/yaml"), "{message}");
}
