//! What a kubelet may do.

use super::*;

fn related(resource: &str, namespace: &str, name: &str) -> bool {
    matches!(
        (resource, namespace, name),
        ("pods", "a", "mine")
            | ("secrets" | "configmaps" | "persistentvolumeclaims", "a", "used")
            | ("serviceaccounts", "a", "sa")
    )
}

#[test]
fn a_kubelet_reaches_its_own_node_and_what_its_pods_use() {
    let none = "no relationship found between node 'n1' and this object";
    let lease = "kube-node-lease";
    for (verb, resource, namespace, name, expected) in [
        ("get", "nodes", "", "n1", Ok(())),
        ("get", "nodes", "", "n2", Err("node 'n1' cannot read 'n2', only its own Node object")),
        ("list", "nodes", "", "", Err("node 'n1' cannot read all nodes, only its own Node object")),
        ("patch", "nodes/status", "", "n1", Ok(())),
        ("delete", "nodes", "", "n1", Err("")),
        ("get", "pods", "a", "mine", Ok(())),
        ("get", "pods", "a", "other", Err(none)),
        ("list", "pods", "", "", Err("can only list/watch pods with spec.nodeName field selector")),
        ("patch", "pods/status", "a", "mine", Ok(())),
        ("delete", "pods", "a", "mine", Ok(())),
        ("update", "pods", "a", "mine", Err("")),
        ("create", "pods/eviction", "a", "mine", Ok(())),
        ("get", "secrets", "a", "used", Ok(())),
        ("get", "secrets", "a", "free", Err(none)),
        ("list", "secrets", "a", "", Err("No Object name found")),
        ("get", "secrets", "", "used", Err("can only read namespaced object of this type")),
        ("update", "secrets", "a", "used", Err("can only read resources of this type")),
        ("watch", "configmaps", "a", "used", Ok(())),
        ("get", "persistentvolumeclaims", "a", "used", Ok(())),
        (
            "list",
            "persistentvolumeclaims",
            "a",
            "",
            Err("can only get individual resources of this type"),
        ),
        ("create", "serviceaccounts/token", "a", "sa", Ok(())),
        ("create", "serviceaccounts/token", "a", "sb", Err(none)),
        ("get", "serviceaccounts", "a", "sa", Ok(())),
        (
            "list",
            "serviceaccounts",
            "a",
            "",
            Err("can only create tokens for individual service accounts"),
        ),
        ("update", "leases.coordination.k8s.io", lease, "n1", Ok(())),
        ("create", "leases.coordination.k8s.io", lease, "", Ok(())),
        (
            "update",
            "leases.coordination.k8s.io",
            lease,
            "n2",
            Err("can only access node lease with the same name as the requesting node"),
        ),
        (
            "get",
            "leases.coordination.k8s.io",
            "a",
            "n1",
            Err("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        (
            "list",
            "leases.coordination.k8s.io",
            lease,
            "",
            Err("can only get, create, update, patch, or delete a node lease"),
        ),
        ("create", "events", "a", "", Ok(())),
        ("list", "services", "", "", Ok(())),
        ("list", "jobs.batch", "a", "", Err("")),
        ("create", "tokenreviews.authentication.k8s.io", "", "", Ok(())),
    ] {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let attributes = Attributes {
            verb,
            group,
            resource,
            subresource,
            name,
            namespace,
            ..Attributes::default()
        };
        let decision = decide_by("n1", &attributes, related);
        let got = if decision.allowed { Ok(()) } else { Err(decision.reason.as_str()) };
        assert_eq!(got, expected, "{verb} {resource}/{subresource} {namespace}/{name}");
    }
}

#[test]
fn a_kubelet_lists_the_pods_that_it_runs() {
    let fields = |node: &str| [("spec.nodeName".to_owned(), node.to_owned())];
    let (own, other) = (fields("n1"), fields("n2"));
    let list =
        |fields| Attributes { verb: "list", resource: "pods", fields, ..Attributes::default() };
    assert!(decide_by("n1", &list(&own), related).allowed);
    assert!(!decide_by("n1", &list(&other), related).allowed);
}

#[test]
fn references_are_found_wherever_a_pod_names_them() {
    let spec = serde_json::json!({
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"name": "v1", "secret": {"secretName": "s1"}},
            {"name": "v2", "projected": {"sources": [{"secret": {"name": "s2"}}, {"configMap": {"name": "c2"}}]}},
            {"name": "v3", "configMap": {"name": "c1"}},
            {"name": "v4", "persistentVolumeClaim": {"claimName": "p1"}},
        ],
        "containers": [{
            "name": "main",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "c3"}}],
        }],
    });
    for (resource, name, expected) in [
        ("secrets", "pull", true),
        ("secrets", "s1", true),
        ("secrets", "s2", true),
        ("secrets", "s3", true),
        ("secrets", "c1", false),
        ("secrets", "v1", false),
        ("secrets", "main", false),
        ("configmaps", "c1", true),
        ("configmaps", "c2", true),
        ("configmaps", "c3", true),
        ("configmaps", "s2", false),
        ("persistentvolumeclaims", "p1", true),
        ("persistentvolumeclaims", "v4", false),
        ("serviceaccounts", "sa", true),
        ("serviceaccounts", "main", false),
    ] {
        assert_eq!(refers(&spec, resource, name), expected, "{resource} {name}");
    }
}
