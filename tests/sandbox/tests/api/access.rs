//! What RBAC makes of whole requests.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::caller::*;

#[tokio::test]
async fn a_list_of_one_object_is_covered_by_a_rule_with_its_name() {
    let (sandbox, _) = by_hand().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": { "name": "one" },
        "rules": [{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"],
            "verbs": ["get", "list", "watch"],
        }],
    });
    post(&sandbox, &format!("{rbac}/roles"), &role).await.expect(201);
    let binding = json!({
        "metadata": { "name": "one" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lea" }],
    });
    post(&sandbox, &format!("{rbac}/rolebindings"), &binding).await.expect(201);
    for (query, expected) in [
        ("?fieldSelector=metadata.name%3Dmine", 200),
        ("?fieldSelector=metadata.name%3D%3Dmine", 200),
        ("?fieldSelector=metadata.name%3Dmine&watch=true&timeoutSeconds=1", 200),
        ("?fieldSelector=metadata.name%3Dother", 403),
        ("?fieldSelector=metadata.name!%3Dmine", 403),
        ("?labelSelector=a%3Db", 403),
        ("", 403),
        ("/mine", 404),
        ("/other", 403),
    ] {
        let request = Request::get(format!("/api/v1/namespaces/default/secrets{query}"))
            .header("impersonate-user", "lea")
            .body(Full::new(Bytes::new()))
            .unwrap();
        let code = sandbox.api().serve(request).await.status().as_u16();
        assert_eq!(code, expected, "{query}");
    }
}
