//! Tokens of a Kubernetes API.

use std::time::Duration;

use muster_hub::authenticate::{AUDIENCE, Authenticate, Reviewer};
use muster_program::connections::Source;
use muster_sandbox::Sandbox;
use muster_sandbox::clock::Clock;
use serde_json::{Value, json};

/// Where tokens come from.
const SOURCE: Source = Source::V4(std::net::Ipv4Addr::LOCALHOST);

async fn token(sandbox: &Sandbox, account: &str, audience: &str, pod: Option<&Value>) -> String {
    let mut spec = json!({ "audiences": [audience], "expirationSeconds": 600 });
    if let Some(pod) = pod {
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        spec["boundObjectRef"] =
            json!({ "kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid });
    }
    let request =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let path = format!("/api/v1/namespaces/muster/serviceaccounts/{account}/token");
    let answer = sandbox.create(&path, &request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_api_says_which_node_a_token_is_bound_to() {
    let clock = Clock::by_hand("2026-01-01T00:00:00Z".parse().unwrap());
    let sandbox = Sandbox::builder().clock(clock.clone()).controllers(None).start().await.unwrap();
    let create = async |path: &str, object: Value| sandbox.create(path, &object).await.unwrap();
    create("/api/v1/namespaces", json!({ "metadata": { "name": "muster" } })).await;
    create("/api/v1/nodes", json!({ "metadata": { "name": "n1" } })).await;
    let mut pods = Vec::new();
    for account in ["muster-agent", "other"] {
        let object = json!({ "metadata": { "name": account } });
        create("/api/v1/namespaces/muster/serviceaccounts", object).await;
        let object = json!({
            "metadata": { "name": account },
            "spec": {
                "serviceAccountName": account, "nodeName": "n1",
                "containers": [{ "name": "c", "image": "i" }],
            },
        });
        pods.push(create("/api/v1/namespaces/muster/pods", object).await);
    }
    let accounts = || vec!["system:serviceaccount:muster:muster-agent".to_owned()];
    let reviewer = Reviewer::new(sandbox.client(), accounts());
    let good = token(&sandbox, "muster-agent", AUDIENCE, Some(&pods[0])).await;
    let cases = [
        (good.clone(), Ok("n1")),
        (token(&sandbox, "muster-agent", "elsewhere", Some(&pods[0])).await, Err("token-refused")),
        (token(&sandbox, "muster-agent", AUDIENCE, None).await, Err("token-without-node")),
        (token(&sandbox, "other", AUDIENCE, Some(&pods[1])).await, Err("account-refused")),
        ("forged".to_owned(), Err("token-refused")),
        (String::new(), Err("token-refused")),
    ];
    for (token, expected) in &cases {
        let answer = reviewer.authenticate(token, SOURCE).await;
        let answer = answer.as_deref().map_err(|denied| denied.reason());
        assert_eq!(answer, *expected);
    }

    clock.advance(Duration::from_secs(3600));
    let fresh = Reviewer::new(sandbox.client(), accounts());
    assert_eq!(fresh.authenticate(&good, SOURCE).await.unwrap_err().reason(), "token-refused");
    assert_eq!(
        reviewer.authenticate(&good, SOURCE).await.as_deref(),
        Ok("n1"),
        "asked a moment ago"
    );
    sandbox.stop().await;
}
