//! Tables of who may do what.

use serde_json::json;

use super::*;

#[derive(Default)]
struct Roles {
    roles: Vec<Value>,
    cluster_roles: Vec<Value>,
    bindings: Vec<Value>,
    cluster_bindings: Vec<Value>,
}

struct Shared(Value);

impl AsRef<Value> for Shared {
    fn as_ref(&self) -> &Value {
        &self.0
    }
}

fn shared(list: &[Value], wanted: impl Fn(&Value) -> bool) -> Vec<Shared> {
    list.iter().filter(|v| wanted(v)).cloned().map(Shared).collect()
}

impl RoleSource for Roles {
    type Object = Shared;
    fn role(&self, namespace: &str, name: &str) -> Option<Shared> {
        let is = |v: &Value| meta::namespace(v) == namespace && meta::name(v) == name;
        shared(&self.roles, is).pop()
    }
    fn cluster_role(&self, name: &str) -> Option<Shared> {
        shared(&self.cluster_roles, |v| meta::name(v) == name).pop()
    }
    fn cluster_roles(&self) -> Vec<Shared> {
        shared(&self.cluster_roles, |_| true)
    }
    fn role_bindings(&self, namespace: &str) -> Vec<Shared> {
        shared(&self.bindings, |v| meta::namespace(v) == namespace)
    }
    fn cluster_role_bindings(&self) -> Vec<Shared> {
        shared(&self.cluster_bindings, |_| true)
    }
}

fn resource<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> Attributes<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes { verb, resource, subresource, namespace, ..Attributes::default() }
}

#[test]
fn a_rule_covers_verbs_groups_resources_names_and_paths() {
    let named = |name: &'static str| Attributes { name, ..resource("get", "pods", "a") };
    let path = |path: &'static str| Attributes { verb: "get", path, ..Attributes::default() };
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let scale = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]});
    let logs = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]});
    let one =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]});
    let urls = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]});
    let any_url = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let batch = Attributes { group: "batch", ..resource("get", "pods", "") };
    for (rule, attributes, expected) in [
        (&pods, resource("get", "pods", "a"), true),
        (&pods, resource("list", "pods", "a"), false),
        (&pods, batch, false),
        (&pods, resource("get", "pods/log", "a"), false),
        (&pods, path("/healthz"), false),
        (&all, batch, true),
        (&all, resource("get", "pods/log", "a"), true),
        (&all, path("/healthz"), false),
        (&scale, resource("update", "jobs/scale", "a"), true),
        (&scale, resource("update", "jobs", "a"), false),
        (&logs, resource("get", "pods/log", "a"), true),
        (&logs, resource("get", "pods", "a"), false),
        (&one, named("x"), true),
        (&one, named("y"), false),
        (&one, named(""), false),
        (&urls, path("/healthz"), true),
        (&urls, path("/healthz/x"), false),
        (&urls, path("/api/v1"), true),
        (&urls, path("/apis"), false),
        (&any_url, path("/metrics"), true),
        (&any_url, resource("get", "pods", "a"), false),
    ] {
        assert_eq!(covers(rule, &attributes), expected, "{rule} {attributes:?}");
    }
}

fn sample() -> Roles {
    let reader = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    Roles {
        roles: vec![json!({"metadata": {"name": "r", "namespace": "a"}, "rules": reader})],
        cluster_roles: vec![json!({"metadata": {"name": "cr"}, "rules": reader})],
        bindings: vec![
            json!({"metadata": {"name": "b", "namespace": "a"},
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "sa"}, {"kind": "User", "name": "lea"}]}),
            json!({"metadata": {"name": "lost", "namespace": "a"},
                "roleRef": {"kind": "Role", "name": "none"},
                "subjects": [{"kind": "User", "name": "kim"}]}),
        ],
        cluster_bindings: vec![
            json!({"metadata": {"name": "cb"},
                "roleRef": {"kind": "ClusterRole", "name": "cr"},
                "subjects": [{"kind": "Group", "name": "crew"},
                    {"kind": "ServiceAccount", "name": "sa", "namespace": "ops"}]}),
            json!({"metadata": {"name": "gone"},
                "roleRef": {"kind": "ClusterRole", "name": "none"},
                "subjects": [{"kind": "User", "name": "kim"}]}),
        ],
    }
}

#[test]
fn the_reason_names_the_binding_the_role_and_the_subject() {
    let roles = sample();
    for (name, group, namespace, expected) in [
        ("lea", "", "a", r#"RBAC: allowed by RoleBinding "b/a" of Role "r" to User "lea""#),
        ("lea", "", "b", ""),
        ("lea", "", "", ""),
        (
            "system:serviceaccount:a:sa",
            "",
            "a",
            r#"RBAC: allowed by RoleBinding "b/a" of Role "r" to ServiceAccount "sa/a""#,
        ),
        ("system:serviceaccount:b:sa", "", "a", ""),
        (
            "system:serviceaccount:ops:sa",
            "",
            "b",
            r#"RBAC: allowed by ClusterRoleBinding "cb" of ClusterRole "cr" to ServiceAccount "sa/ops""#,
        ),
        (
            "ann",
            "crew",
            "",
            r#"RBAC: allowed by ClusterRoleBinding "cb" of ClusterRole "cr" to Group "crew""#,
        ),
    ] {
        let groups = [group.to_owned()];
        let caller = Caller { name, groups: &groups };
        let decision = allowed(&roles, caller, &resource("get", "pods", namespace));
        assert_eq!(decision.reason, expected, "{name} in {namespace}");
        assert_eq!(decision.allowed, !expected.is_empty(), "{name} in {namespace}");
    }
}

#[test]
fn bindings_to_missing_roles_are_named_in_the_refusal() {
    let decision =
        allowed(&sample(), Caller { name: "kim", groups: &[] }, &resource("get", "pods", "a"));
    assert_eq!(
        decision,
        Decision {
            allowed: false,
            reason: "RBAC: [clusterrole.rbac.authorization.k8s.io \"none\" not found, \
                     role.rbac.authorization.k8s.io \"none\" not found]"
                .into()
        }
    );
}

#[test]
fn masters_may_do_everything() {
    let groups = [MASTERS.to_owned()];
    let caller = Caller { name: "root", groups: &groups };
    assert!(allowed(&Roles::default(), caller, &resource("delete", "nodes", "")).allowed);
}

#[test]
fn an_aggregated_role_has_the_rules_of_the_roles_it_selects_through_several_steps() {
    let rule =
        |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    let sum = |name: &str, labels: Value, of: &str| {
        json!({"metadata": {"name": name, "labels": labels}, "rules": [rule("stale")],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {of: "true"}}]}})
    };
    let roles = Roles {
        cluster_roles: vec![
            sum("edit", json!({"to-edit": "true"}), "to-edit"),
            json!({"metadata": {"name": "part", "labels": {"to-view": "true"}}, "rules": [rule("pods")]}),
            sum("view", json!({"to-edit": "true"}), "to-view"),
            json!({"metadata": {"name": "write", "labels": {"to-edit": "true"}}, "rules": [rule("jobs")]}),
        ],
        ..Roles::default()
    };
    let edit = roles.cluster_role("edit").unwrap();
    assert_eq!(rules_of(&roles, edit.as_ref()), [rule("pods"), rule("jobs")]);
}

#[test]
fn label_expressions_select_by_presence_and_value() {
    let object = json!({"metadata": {"labels": {"a": "1"}}});
    for (key, operator, values, expected) in [
        ("a", "In", json!(["1", "2"]), true),
        ("a", "In", json!(["2"]), false),
        ("b", "In", json!(["1"]), false),
        ("a", "NotIn", json!(["1"]), false),
        ("b", "NotIn", json!(["1"]), true),
        ("a", "Exists", json!([]), true),
        ("b", "Exists", json!([]), false),
        ("b", "DoesNotExist", json!([]), true),
        ("a", "Like", json!(["1"]), false),
    ] {
        let selector =
            json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        assert_eq!(selects(&selector, &object), expected, "{key} {operator}");
    }
    assert!(selects(&json!({}), &object));
}
