//! Tables of policies and of what they match.

use super::matching::{self, Target};
use super::*;

fn policy(spec: Value) -> Value {
    let mut all = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"],
        }]},
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "p"}, "spec": all})
}

fn evaluate(spec: Value, object: Value, old: Option<Value>) -> Vec<Denial> {
    let request = json!({
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "userInfo": {"username": "ann", "groups": ["dev"], "extra": {"authentication.kubernetes.io/node-name": ["node-1"]}},
        "name": "x", "namespace": "default",
    });
    let namespace = json!({"metadata": {"name": "default", "labels": {"env": "prod"}}});
    let params = json!({"max": 3});
    let has_params = spec.get("paramKind").is_some();
    Policy::compile(&policy(spec)).unwrap().evaluate(&PolicyInput {
        object: Some(&object),
        old_object: old.as_ref(),
        request: &request,
        params: has_params.then_some(&params),
        namespace_object: Some(&namespace),
    })
}

fn denial(reason: &'static str, code: u16, message: &str) -> Denial {
    Denial { message: message.to_owned(), reason, code }
}

#[test]
fn policies_deny_with_their_reason_and_message() {
    let pod = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"replicas": 5, "nodeName": "node-1"}});
    let rule = |rule: Value| json!({"validations": [rule]});
    let variables = json!({
        "variables": [
            {"name": "n", "expression": "object.spec.replicas"},
            {"name": "twice", "expression": "variables.n * 2"},
            {"name": "broken", "expression": "object.spec.nope"},
        ],
        "validations": [{"expression": "variables.twice < 10"}],
    });
    let broken = json!({
        "variables": [{"name": "broken", "expression": "object.spec.nope"}],
        "validations": [{"expression": "variables.broken == 1"}],
    });
    // spec, denials
    let table: Vec<(Value, Vec<Denial>)> = vec![
        (rule(json!({"expression": "object.spec.replicas == 5"})), vec![]),
        (
            rule(json!({"expression": "object.spec.replicas < 5"})),
            vec![denial("Invalid", 422, "failed expression: object.spec.replicas < 5")],
        ),
        (
            rule(json!({"expression": "false", "message": "no", "reason": "Forbidden"})),
            vec![denial("Forbidden", 403, "no")],
        ),
        (
            rule(json!({"expression": "false", "message": "no", "reason": "Unauthorized"})),
            vec![denial("Unauthorized", 401, "no")],
        ),
        (
            rule(
                json!({"expression": "false", "messageExpression": "'got ' + string(object.spec.replicas)"}),
            ),
            vec![denial("Invalid", 422, "got 5")],
        ),
        (
            rule(
                json!({"expression": "false", "message": "own", "messageExpression": "object.spec.nope"}),
            ),
            vec![denial("Invalid", 422, "own")],
        ),
        (
            rule(json!({"expression": "object.spec.nope == 1"})),
            vec![denial(
                "Invalid",
                422,
                "expression 'object.spec.nope == 1' resulted in error: no such key: nope",
            )],
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.spec.nope == 1"}]}),
            vec![],
        ),
        (
            rule(
                json!({"expression": "request.userInfo.extra['authentication.kubernetes.io/node-name'][0] == object.spec.nodeName"}),
            ),
            vec![],
        ),
        (rule(json!({"expression": "namespaceObject.metadata.labels.env == 'prod'"})), vec![]),
        (
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "object.spec.replicas <= params.max", "message": "too many"}]}),
            vec![denial("Invalid", 422, "too many")],
        ),
        (variables, vec![denial("Invalid", 422, "failed expression: variables.twice < 10")]),
        (
            broken,
            vec![denial(
                "Invalid",
                422,
                "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nope",
            )],
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}], "validations": [{"expression": "false"}]}),
            vec![],
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.nope"}], "validations": [{"expression": "true"}]}),
            vec![denial(
                "Invalid",
                422,
                "expression 'object.nope' resulted in error: no such key: nope",
            )],
        ),
        (rule(json!({"expression": "oldObject == null"})), vec![]),
    ];
    for (spec, expected) in table {
        assert_eq!(evaluate(spec.clone(), pod.clone(), None), expected, "{spec}");
    }
}

#[test]
fn an_update_shows_the_old_object() {
    let spec = json!({"validations": [{"expression": "object.metadata.labels == oldObject.metadata.labels", "message": "labels are fixed"}]});
    let pod = |label: &str| json!({"metadata": {"labels": {"a": label}}});
    assert!(evaluate(spec.clone(), pod("1"), Some(pod("1"))).is_empty());
    assert_eq!(evaluate(spec, pod("1"), Some(pod("2"))).len(), 1);
}

#[test]
fn broken_policies_are_refused_with_their_fields() {
    // spec, fields
    let table: Vec<(Value, &[&str])> = vec![
        (json!({"validations": []}), &["spec.validations", "spec.auditAnnotations"]),
        (json!({"validations": [{"expression": " "}]}), &["spec.validations[0].expression"]),
        (json!({"validations": [{"expression": "object."}]}), &["spec.validations[0].expression"]),
        (json!({"validations": [{"expression": "foo == 1"}]}), &["spec.validations[0].expression"]),
        (
            json!({"validations": [{"expression": "params.x == 1"}]}),
            &["spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "authorizer == 1"}]}),
            &["spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "true", "reason": "Nope"}]}),
            &["spec.validations[0].reason"],
        ),
        (
            json!({"validations": [{"expression": "true", "message": "a\nb"}]}),
            &["spec.validations[0].message"],
        ),
        (
            json!({"validations": [{"expression": "true"}], "variables": [{"name": "a-b", "expression": "1"}]}),
            &["spec.variables[0].name"],
        ),
        (
            json!({"validations": [{"expression": "true"}], "failurePolicy": "Maybe"}),
            &["spec.failurePolicy"],
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": ""}]}),
            &["spec.matchConditions[1].expression", "spec.matchConditions[1].name"],
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConstraints": {}}),
            &["spec.matchConstraints.resourceRules"],
        ),
    ];
    for (spec, fields) in table {
        let errors = Policy::compile(&policy(spec.clone())).unwrap_err();
        let found: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(found, fields, "{spec}");
    }
}

#[test]
fn a_false_condition_outweighs_an_error() {
    let input = PolicyInput {
        object: None,
        old_object: None,
        request: &json!({"operation": "DELETE"}),
        params: None,
        namespace_object: None,
    };
    let condition = |e: &str| json!({"name": e, "expression": e});
    let hold = |list: Value| match_conditions(&list, &input);
    assert_eq!(hold(json!(null)), Ok(true));
    assert_eq!(hold(json!([condition("request.operation == 'DELETE'")])), Ok(true));
    assert_eq!(hold(json!([condition("request.nope"), condition("false")])), Ok(false));
    assert_eq!(
        hold(json!([condition("request.nope"), condition("true")])),
        Err("expression 'request.nope' resulted in error: no such key: nope".to_owned())
    );
    assert!(hold(json!([condition("object != null")])) == Ok(false));
    assert!(hold(json!([condition("1 +")])).is_err());
}

#[test]
fn rules_match_by_operation_group_version_resource_and_scope() {
    let pods = Target {
        operation: "CREATE",
        version: "v1",
        resource: "pods",
        name: "x",
        namespaced: true,
        ..Target::default()
    };
    let rule = |more: Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([rule])
    };
    let status = Target { subresource: "status", ..pods };
    let namespace = Target { resource: "namespaces", ..pods };
    let node = Target { resource: "nodes", namespaced: false, ..pods };
    // rule, target, whether it matches
    let table = [
        (json!({}), pods, true),
        (json!({"operations": ["UPDATE"]}), pods, false),
        (json!({"operations": ["*"]}), pods, true),
        (json!({"apiGroups": ["apps"]}), pods, false),
        (json!({"apiGroups": ["*"], "apiVersions": ["*"]}), pods, true),
        (json!({"apiVersions": ["v2"]}), pods, false),
        (json!({}), status, false),
        (json!({"resources": ["*"]}), status, false),
        (json!({"resources": ["pods/status"]}), status, true),
        (json!({"resources": ["pods/*"]}), pods, true),
        (json!({"resources": ["*/*"]}), status, true),
        (json!({"resources": ["pods/*"]}), status, true),
        (json!({"scope": "Cluster"}), pods, false),
        (json!({"scope": "Namespaced"}), pods, true),
        (json!({"scope": "Namespaced", "resources": ["*"]}), namespace, false),
        (json!({"scope": "Cluster", "resources": ["*"]}), namespace, true),
        (json!({"scope": "Cluster", "resources": ["*"]}), node, true),
        (json!({"resourceNames": ["x"]}), pods, true),
        (json!({"resourceNames": ["y"]}), pods, false),
    ];
    for (more, target, expected) in table {
        assert_eq!(
            matching::rules_match(&rule(more.clone()), &target),
            expected,
            "{more} on {target:?}"
        );
    }
    let constraints = json!({"resourceRules": rule(json!({})), "excludeResourceRules": rule(json!({"resourceNames": ["x"]}))});
    assert!(!matching::constraints_match(&constraints, &pods, |_| true, |_| true));
    assert!(matching::constraints_match(
        &constraints,
        &Target { name: "y", ..pods },
        |_| true,
        |_| true
    ));
    let selected =
        json!({"namespaceSelector": {"matchLabels": {}}, "resourceRules": rule(json!({}))});
    assert!(!matching::constraints_match(&selected, &pods, |_| false, |_| true));
    assert!(matching::constraints_match(&json!({}), &pods, |_| false, |_| false));
}
