use serde_json::{Value, json};

use super::*;
use crate::shape::read_kthena;

/// A role with workers in a group of which there are two.
fn example() -> Value {
    let pod = |image: &str| json!({"spec": {"containers": [{"name": "engine", "image": image}]}});
    json!({"metadata": {"name": "llm", "namespace": "serve"}, "spec": {
        "replicas": 2, "schedulerName": "volcano", "recoveryPolicy": "RoleRecreate",
        "template": {"roles": [{"name": "server", "replicas": 2, "workerReplicas": 1, "maxUnavailable": 1,
            "entryTemplate": pod("e:1"), "workerTemplate": pod("w:1")}]}}})
}

/// The example with other values at pointers.
fn with(changes: &[(&str, Value)]) -> ModelServing {
    let mut raw = example();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match raw.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            object => object[key] = value.clone(),
        }
    }
    read_kthena(&raw).unwrap()
}

fn found(changes: &[(&str, Value)]) -> Vec<String> {
    validate(&with(changes))
        .iter()
        .map(|e| format!("{} {} {}", e.field, e.kind.reason(), serde_json::json!(e.bad_value)))
        .collect()
}

const ROLE: &str = "/spec/template/roles/0";

#[test]
fn a_good_object_passes() {
    assert_eq!(validate(&with(&[])), []);
    assert_eq!(found(&[("/spec/replicas", json!(0))]), [""; 0]);
    let image = format!("{ROLE}/entryTemplate/spec/containers/0/image");
    for odd in ["", "UPPER/Case", "a@b@c", "::"] {
        assert_eq!(found(&[(&image, json!(odd))]), [""; 0], "{odd}");
    }
}

#[test]
fn names_count_by_their_counts() {
    // "-2-server-2-1" is 13 long.
    assert_eq!(found(&[("/metadata/name", json!("a".repeat(50)))]), [""; 0]);
    assert_eq!(found(&[("/metadata/name", json!("a".repeat(51)))]).len(), 1);
    assert_eq!(
        found(&[("/metadata/name", json!("7b"))]),
        [r#"metadata.name FieldValueInvalid "7b""#]
    );
    let role = format!("{ROLE}/name");
    assert_eq!(
        found(&[(&role, json!("Server"))]),
        [
            r#"metadata.name FieldValueInvalid "llm""#,
            r#"spec.template.roles[0].name FieldValueInvalid "Server""#
        ]
    );
    let both = &validate(&with(&[("/metadata/name", json!("A".repeat(64)))]))[0].detail;
    assert!(
        both.starts_with("invalid name: must be no more than 63 characters; a DNS-1035"),
        "{both}"
    );
}

#[test]
fn each_rule_reports_its_field() {
    let role = |field: &str| format!("{ROLE}/{field}");
    let at = |field: &str, kind: &str, value: &str| {
        vec![format!("spec.template.roles[0].{field} FieldValue{kind} {value}")]
    };
    let cases = [
        (
            "/spec/replicas".to_owned(),
            json!(null),
            vec!["spec.replicas FieldValueInvalid null".to_owned()],
        ),
        (
            "/spec/template/roles".to_owned(),
            json!([]),
            vec!["spec.template.roles FieldValueInvalid []".to_owned()],
        ),
        (role("replicas"), json!(-1), at("replicas", "Invalid", "-1")),
        (role("replicas"), json!(null), at("replicas", "Invalid", "null")),
        (role("workerReplicas"), json!(-1), at("workerReplicas", "Invalid", "-1")),
        (role("workerTemplate"), json!(null), at("workerTemplate", "Required", "\"\"")),
        (role("partition"), json!(1), at("partition", "Forbidden", "\"\"")),
        (role("maxUnavailable"), json!("x"), vec![]),
        (
            role("workerTemplate/spec/containers/0/image"),
            json!("a b"),
            at("workerTemplate.spec.containers[0].image", "Invalid", "\"a b\""),
        ),
        (
            "/spec/template/gangPolicy".to_owned(),
            json!({"minRoleReplicas": {"nobody": 1, "server": 3}}),
            vec![
                "spec.template.gangPolicy.minRoleReplicas[nobody] FieldValueInvalid \"nobody\""
                    .to_owned(),
                "spec.template.gangPolicy.minRoleReplicas[server] FieldValueInvalid 3".to_owned(),
            ],
        ),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(found(&[(&pointer, value.clone())]), expected, "{pointer} {value}");
        let errors = validate(&with(&[(&pointer, value)]));
        assert!(errors.iter().all(|error| !error.remedy.is_empty()), "{pointer} has no remedy");
    }
}

#[test]
fn budgets_of_groups_are_looked_at_in_group_mode() {
    let budget = |max: Value, partition: Value| {
        let limits = json!({"maxUnavailable": max, "partition": partition});
        let strategy =
            json!({"type": "ServingGroupRollingUpdate", "rollingUpdateConfiguration": limits});
        let errors = validate(&with(&[("/spec/rolloutStrategy", strategy)]));
        let short = |e: FieldError| e.field.rsplit('.').next().unwrap_or_default().to_owned();
        errors.into_iter().map(short).collect::<Vec<_>>()
    };
    let none = json!(null);
    for good in [json!(1), json!(9), json!("50%"), json!("100%")] {
        assert_eq!(budget(good.clone(), json!("0%")), [""; 0], "{good}");
    }
    for zero in [json!(0), json!("0%"), json!("49%")] {
        assert_eq!(budget(zero.clone(), none.clone()), ["rollingUpdateConfiguration"], "{zero}");
    }
    assert_eq!(budget(json!(-1), none.clone()), ["maxUnavailable"]);
    assert_eq!(budget(json!("101%"), none.clone()), ["maxUnavailable"]);
    for twice in [json!("1"), json!("x%"), json!(""), json!(1.5), json!(true), json!(1_i64 << 40)] {
        let at = budget(twice.clone(), none.clone());
        assert_eq!(at, ["maxUnavailable", "maxUnavailable"], "{twice}");
    }
    assert_eq!(budget(none.clone(), json!("x")), ["partition"]);
    let strategy =
        json!({"type": "RoleRollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": "x"}});
    assert_eq!(
        found(&[("/spec/rolloutStrategy", strategy)]),
        ["spec.rolloutStrategy.rollingUpdateConfiguration FieldValueForbidden \"\""]
    );
}

#[test]
fn budgets_of_roles_are_looked_at_in_role_mode() {
    let role = |field: &str, value: Value| {
        let at = format!("{ROLE}/{field}");
        let strategy = json!({"type": "RoleRollingUpdate"});
        let errors = validate(&with(&[("/spec/rolloutStrategy", strategy), (&at, value)]));
        errors.into_iter().map(|error| error.detail).collect::<Vec<_>>()
    };
    assert_eq!(role("maxUnavailable", json!("100%")), [""; 0]);
    assert_eq!(
        role("maxUnavailable", json!(3)),
        ["maxUnavailable cannot be greater than replicas (2)"]
    );
    assert_eq!(role("maxUnavailable", json!("49%")), ["maxUnavailable cannot be 0"]);
    assert_eq!(role("partition", json!("50%")), [""; 0]);
    assert_eq!(role("partition", json!(-1)), ["must be a non-negative integer"]);
    assert_eq!(role("maxUnavailable", json!("x%")).len(), 2);
}

#[test]
fn whole_groups_are_not_recovered_while_roles_roll() {
    let by_role = ("/spec/rolloutStrategy", json!({"type": "RoleRollingUpdate"}));
    let recovery = |policy: &str| ("/spec/recoveryPolicy", json!(policy));
    assert_eq!(
        found(&[by_role.clone(), recovery("ServingGroupRecreate")]),
        [r#"spec.rolloutStrategy.type FieldValueInvalid "RoleRollingUpdate""#]
    );
    assert_eq!(found(&[by_role, recovery("None")]), [""; 0]);
    assert_eq!(found(&[recovery("ServingGroupRecreate")]), [""; 0]);
}

#[test]
fn parts_are_rounded_as_asked() {
    let part = |text: &str, total, up| scaled(&json!(text), total, up);
    assert_eq!((part("40%", 3, false), part("40%", 3, true)), (Ok(1), Ok(2)));
    assert_eq!((part("50%", 4, false), part("50%", 4, true)), (Ok(2), Ok(2)));
    assert_eq!(scaled(&json!(7), 3, false), Ok(7));
    assert_eq!(part("-5%", 2, false), Ok(-1));
    assert_eq!(part("9223372036854775807%", i32::MAX, true).map(|n| n > 0), Ok(true));
    let why = part("99999999999999999999%", 1, true).unwrap_err();
    assert!(why.ends_with("value out of range"), "{why}");
}

#[test]
fn a_refusal_has_one_line_for_each_error() {
    let errors =
        validate(&with(&[("/spec/replicas", json!(-3)), (&format!("{ROLE}/replicas"), json!(-1))]));
    let text = message(&errors);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "validation failed:");
    assert!(lines.contains(
        &"  - spec.replicas: Invalid value: -3: replicas must be a non-negative integer"
    ));
    assert_eq!(lines.len(), errors.len() + 1);
}
