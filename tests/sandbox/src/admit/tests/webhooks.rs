//! Webhooks called over real TLS.

use std::sync::atomic::Ordering;

use super::server::{Webhook, patch, respond};
use super::*;

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// A configuration with one webhook at `url`; `with` overrides fields of the webhook.
fn configure(store: &Store, resource: &str, name: &str, url: &str, ca: &str, with: Value) {
    let mut webhook = json!({
        "name": format!("{name}.example.com"),
        "clientConfig": {"url": url, "caBundle": ca},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (key, value) in with.as_object().unwrap() {
        webhook[key] = value.clone();
    }
    let mut object = json!({"metadata": {"name": name, "uid": name}, "webhooks": [webhook]});
    let kind = if resource == MUTATING {
        "MutatingWebhookConfiguration"
    } else {
        "ValidatingWebhookConfiguration"
    };
    default_configuration(&mut object, kind);
    assert_eq!(validate_configuration(&object, kind), []);
    put(store, resource, object);
}

async fn refusal(store: &Arc<Store>) -> Status {
    let user = User::admin();
    let mut attempt = create(&user, "configmaps", config_map(json!({})));
    admission(store).validate(&mut attempt).await.unwrap_err()
}

#[tokio::test]
async fn a_patch_of_nothing_changes_nothing() {
    for operations in [json!([]), Value::Null] {
        let store = store();
        let nothing = operations.clone();
        let hook = Webhook::start(&["127.0.0.1"], move |request| patch(request, &nothing)).await;
        let url = format!("https://{}/mutate", hook.address);
        configure(&store, MUTATING, "a", &url, &hook.ca, json!({}));
        let user = User::admin();
        let mut attempt = create(&user, "configmaps", config_map(json!({"a": "b"})));
        admission(&store).mutate(&mut attempt).await.unwrap();
        assert_eq!(attempt.object, Some(config_map(json!({"a": "b"}))), "{operations}");
    }
}

#[tokio::test]
async fn mutating_webhooks_run_in_order_and_see_each_others_changes() {
    let store = store();
    let first = Webhook::start(&["127.0.0.1"], |request| {
        patch(request, &json!([{"op": "add", "path": "/data/one", "value": "1"}]))
    })
    .await;
    let second = Webhook::start(&["127.0.0.1"], |request| {
        patch(request, &json!([{"op": "copy", "from": "/data/one", "path": "/data/two"}]))
    })
    .await;
    let url = |hook: &Webhook| format!("https://{}/mutate", hook.address);
    configure(&store, MUTATING, "b", &url(&second), &second.ca, json!({}));
    configure(
        &store,
        MUTATING,
        "a",
        &url(&first),
        &first.ca,
        json!({"reinvocationPolicy": "IfNeeded"}),
    );
    let user = User::admin();
    let mut attempt = create(&user, "configmaps", config_map(json!({})));
    admission(&store).mutate(&mut attempt).await.unwrap();
    assert_eq!(attempt.object, Some(config_map(json!({"one": "1", "two": "1"}))));
    // The second changed the object after the first had seen it, and the first wants to know.
    assert_eq!(first.seen.lock().unwrap().len(), 2);
    assert_eq!(second.seen.lock().unwrap().len(), 1);

    let mut request = first.seen.lock().unwrap()[0]["request"].clone();
    assert!(request["uid"].take().as_str().is_some_and(|uid| uid.len() == 36));
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let mut object = config_map(json!({}));
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("ConfigMap");
    assert_eq!(
        request,
        json!({"uid": null, "kind": kind, "resource": resource, "requestKind": kind,
            "requestResource": resource, "name": "c", "namespace": "a", "operation": "CREATE",
            "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}})
    );
}

#[tokio::test]
async fn a_denial_carries_the_webhooks_own_code_and_words() {
    for (status, code, reason, message) in [
        (
            json!({"message": "no"}),
            400,
            "",
            "admission webhook \"v.example.com\" denied the request: no",
        ),
        (
            json!({"message": "no", "code": 403, "reason": "Forbidden"}),
            403,
            "Forbidden",
            "admission webhook \"v.example.com\" denied the request: no",
        ),
        (
            json!({"reason": "Conflict", "code": 200}),
            400,
            "Conflict",
            "admission webhook \"v.example.com\" denied the request: Conflict",
        ),
        (
            Value::Null,
            400,
            "",
            "admission webhook \"v.example.com\" denied the request without explanation",
        ),
    ] {
        let store = store();
        let hook = Webhook::start(&["127.0.0.1"], move |request| {
            respond(request, json!({"allowed": false, "status": status}))
        })
        .await;
        let url = format!("https://{}", hook.address);
        configure(&store, VALIDATING, "v", &url, &hook.ca, json!({"failurePolicy": "Ignore"}));
        let status = refusal(&store).await;
        assert_eq!(
            (status.code, &*status.reason, status.message.as_str()),
            (code, reason, message)
        );
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_failures() {
    for (response, expected) in [
        (json!({"uid": "x", "allowed": true}), "expected response.uid="),
        (
            json!({"allowed": true, "patch": "W10="}),
            "validating webhook may not return response.patch",
        ),
        (
            json!({"allowed": true, "patchType": "JSONPatch"}),
            "validating webhook may not return response.patchType",
        ),
    ] {
        let store = store();
        let hook = Webhook::start(&["127.0.0.1"], move |r| respond(r, response.clone())).await;
        configure(
            &store,
            VALIDATING,
            "v",
            &format!("https://{}", hook.address),
            &hook.ca,
            json!({}),
        );
        let message = refusal(&store).await.message;
        let start = format!(
            "Internal error occurred: failed calling webhook \"v.example.com\": received invalid webhook response: {expected}"
        );
        assert!(message.starts_with(&start), "{message}");
    }
}

#[tokio::test]
async fn webhooks_that_cannot_be_reached_fail_in_the_words_of_kubernetes() {
    let hook = Webhook::start(&["127.0.0.1"], |r| respond(r, json!({"allowed": true}))).await;
    let other =
        Webhook::start(&["elsewhere.example.com"], |r| respond(r, json!({"allowed": true}))).await;
    let broken = Webhook::start(&["127.0.0.1"], |_| (500, "text/plain", "boom".into())).await;
    let missing = Webhook::start(&["127.0.0.1"], |_| (404, "text/plain", "".into())).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = |address: std::net::SocketAddr| format!("https://{address}/v");
    let post = |address: std::net::SocketAddr, why: &str| {
        format!("failed to call webhook: Post \"https://{address}/v?timeout=10s\": {why}")
    };
    for (url, ca, expected) in [
        (url(free), &hook.ca, post(free, &format!("dial tcp {free}: connect: connection refused"))),
        (
            url(hook.address),
            &other.ca,
            post(hook.address, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        ),
        (
            url(other.address),
            &other.ca,
            post(other.address, "tls: failed to verify certificate: x509: certificate is valid for elsewhere.example.com, not 127.0.0.1"),
        ),
        (
            url(broken.address),
            &broken.ca,
            "failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding".into(),
        ),
        (
            url(missing.address),
            &missing.ca,
            "failed to call webhook: the server could not find the requested resource".into(),
        ),
        (
            "https://192.0.2.1/v".into(),
            &hook.ca,
            "failed to call webhook: Post \"https://192.0.2.1/v?timeout=10s\": address 192.0.2.1:443 is not on the loopback interface; webhooks are called nowhere else".into(),
        ),
    ] {
        let store = store();
        configure(&store, VALIDATING, "v", &url, ca, json!({}));
        let status = refusal(&store).await;
        let expected = format!("Internal error occurred: failed calling webhook \"v.example.com\": {expected}");
        assert_eq!((status.code, status.message), (500, expected));
        configure(&store, VALIDATING, "v", &url, ca, json!({"failurePolicy": "Ignore"}));
        let user = User::admin();
        let mut attempt = create(&user, "configmaps", config_map(json!({})));
        assert_eq!(admission(&store).validate(&mut attempt).await, Ok(()));
    }
}

#[tokio::test]
async fn a_webhook_that_takes_too_long_is_cut_off() {
    let store = store();
    // It accepts, but never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    configure(
        &store,
        VALIDATING,
        "v",
        &format!("https://{address}"),
        "",
        json!({"timeoutSeconds": 1}),
    );
    assert_eq!(
        refusal(&store).await.message,
        format!(
            "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://{address}/?timeout=1s\": context deadline exceeded"
        )
    );
}

#[tokio::test]
async fn services_are_found_in_the_map_or_in_the_store_under_their_own_name() {
    let hook = Webhook::start(&["hook.ops.svc"], |r| {
        respond(r, json!({"allowed": true, "warnings": ["w"]}))
    })
    .await;
    let store = store();
    let service =
        json!({"caBundle": hook.ca, "service": {"namespace": "ops", "name": "hook", "path": "/v"}});
    configure(&store, VALIDATING, "v", "", "", json!({"clientConfig": service}));
    let message = refusal(&store).await.message;
    assert!(
        message.ends_with(
            "Post \"https://hook.ops.svc:443/v?timeout=10s\": service \"hook\" not found"
        ),
        "{message}"
    );

    let user = User::admin();
    let attempt = || create(&user, "configmaps", config_map(json!({})));
    let mapped = admission(&store);
    mapped.serve("ops", "hook", 443, hook.address);
    let mut one = attempt();
    mapped.validate(&mut one).await.unwrap();
    assert_eq!(one.warnings, ["w"]);
    // The second call goes over the first one's connection.
    mapped.validate(&mut attempt()).await.unwrap();
    assert_eq!(hook.connections.load(Ordering::SeqCst), 1);

    put(
        &store,
        "services",
        json!({"metadata": {"namespace": "ops", "name": "hook"}, "spec": {"ports": [{"name": "https", "port": 443}]}}),
    );
    assert!(refusal(&store).await.message.ends_with("no endpoints available for service \"hook\""));
    let slice = |address: &str| {
        json!({"metadata": {"namespace": "ops", "name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "ports": [{"name": "https", "port": hook.address.port()}], "endpoints": [{"addresses": [address]}]})
    };
    put(&store, "endpointslices.discovery.k8s.io", slice("10.0.0.1"));
    assert!(refusal(&store).await.message.contains("is not on the loopback interface"));
    put(&store, "endpointslices.discovery.k8s.io", slice("127.0.0.1"));
    assert_eq!(admission(&store).validate(&mut attempt()).await, Ok(()));
}

#[tokio::test]
async fn only_writes_that_match_are_sent() {
    let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let rule = |field: &str, value: Value| {
        let mut rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
        rules[0][field] = value;
        json!({"rules": rules})
    };
    let condition =
        |expression: &str| json!({"matchConditions": [{"name": "m", "expression": expression}]});
    let selector = |field: &str, value: &str| json!({field: {"matchLabels": {"team": value}}});
    for (with, expected) in [
        (json!({}), true),
        (json!({"rules": everything}), true),
        (rule("operations", json!(["UPDATE"])), false),
        (rule("apiGroups", json!(["batch"])), false),
        (rule("resources", json!(["configmaps/status"])), false),
        (rule("scope", json!("Cluster")), false),
        (rule("scope", json!("Namespaced")), true),
        (selector("namespaceSelector", "blue"), true),
        (selector("namespaceSelector", "red"), false),
        (selector("objectSelector", "blue"), false),
        (condition("object.metadata.name == 'c'"), true),
        (condition("request.operation == 'DELETE'"), false),
        (condition("request.userInfo.username == 'system:admin'"), true),
    ] {
        let store = store();
        let hook = Webhook::start(&["127.0.0.1"], |r| respond(r, json!({"allowed": true}))).await;
        configure(
            &store,
            VALIDATING,
            "v",
            &format!("https://{}", hook.address),
            &hook.ca,
            with.clone(),
        );
        let user = User::admin();
        let mut attempt = create(&user, "configmaps", config_map(json!({})));
        admission(&store).validate(&mut attempt).await.unwrap();
        assert_eq!(hook.seen.lock().unwrap().len(), usize::from(expected), "{with}");
    }
}

#[tokio::test]
async fn another_version_of_the_resource_counts_unless_it_must_be_exact() {
    let rules = json!([{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]}]);
    for (policy, expected) in [("Equivalent", 1), ("Exact", 0)] {
        let store = store();
        let hook = Webhook::start(&["127.0.0.1"], |request| {
            patch(request, &json!([{"op": "add", "path": "/spec", "value": {"v": request["kind"]["version"]}}]))
        })
        .await;
        let with = json!({"rules": rules, "matchPolicy": policy});
        configure(&store, MUTATING, "m", &format!("https://{}", hook.address), &hook.ca, with);
        let user = User::admin();
        let object =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
        let mut attempt = create(&user, "widgets", object);
        admission(&store).mutate(&mut attempt).await.unwrap();
        let seen = hook.seen.lock().unwrap();
        assert_eq!(seen.len(), expected, "{policy}");
        let object = attempt.object.unwrap();
        assert_eq!(object["apiVersion"], "example.com/v1");
        if let Some(review) = seen.first() {
            assert_eq!(review["request"]["object"]["apiVersion"], "example.com/v2");
            assert_eq!(review["request"]["requestKind"]["version"], "v1");
            assert_eq!(object["spec"]["v"], "v2");
        }
    }
}

#[tokio::test]
async fn admission_configurations_are_never_sent() {
    let store = store();
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    configure(&store, VALIDATING, "v", "https://127.0.0.1:1", "", json!({"rules": rules}));
    let user = User::admin();
    let mut attempt = create(&user, "configmaps", json!({"metadata": {"name": "x"}}));
    attempt.namespace = "";
    attempt.kind = Gvk {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "ValidatingWebhookConfiguration",
    };
    assert_eq!(admission(&store).validate(&mut attempt).await, Ok(()));
}

#[tokio::test]
async fn what_a_webhook_adds_is_read_like_what_a_client_sends() {
    let store = store();
    let hook = Webhook::start(&["127.0.0.1"], |request| {
        let added = json!([{"name": "wait", "image": "i:1", "unheard": "of"}]);
        patch(request, &json!([{"op": "add", "path": "/spec/initContainers", "value": added}]))
    })
    .await;
    let url = format!("https://{}/mutate", hook.address);
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    configure(&store, MUTATING, "a", &url, &hook.ca, json!({"rules": rules}));
    let account = json!({"metadata": {"namespace": "a", "name": "default", "uid": "d"}});
    put(&store, "serviceaccounts", account);
    let user = User::admin();
    let pod = json!({"metadata": {"namespace": "a", "name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}]}});
    let mut attempt = create(&user, "pods", pod);
    admission(&store).mutate(&mut attempt).await.unwrap();
    let object = attempt.object.unwrap();
    let added = &object["spec"]["initContainers"][0];
    assert_eq!(added["resources"], json!({}));
    assert_eq!(added["imagePullPolicy"], "IfNotPresent");
    assert_eq!(added.get("unheard"), None);
}
