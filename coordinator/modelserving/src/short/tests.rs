use serde_json::{Value, json};

use super::*;
use crate::shape::read_short;

/// The example of the short shape, word for word where it matters.
fn example() -> Value {
    json!({
        "apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen-inference", "namespace": "default", "annotations": {
            "kthena.io/ranktable-template": "ascend-ranktable-template-mindie-role",
            "kthena.io/ranktable-level": "role"}},
        "spec": {
            "model": {"name": "Qwen2.5-7B-Instruct", "source": {"modelHub": "ModelScope"}},
            "roles": [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{
                "name": "inference", "image": "ascend-inference:latest",
                "resources": {"limits": {"ascend.com/npu": "8"}},
                "volumeMounts": [{"name": "ranktable", "mountPath": "/etc/ascend/ranktable", "readOnly": true}]}]}}}],
        },
    })
}

fn read(raw: &Value) -> ShortServing {
    read_short(raw).unwrap()
}

/// The example with another value at a pointer.
fn with(pointer: &str, value: Value) -> ShortServing {
    let mut raw = example();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    raw.pointer_mut(parent).unwrap()[key] = value;
    read(&raw)
}

fn found(serving: &ShortServing) -> Vec<(String, &'static str)> {
    validate(serving).into_iter().map(|error| (error.field, error.kind.reason())).collect()
}

#[test]
fn the_example_is_kept_and_valid() {
    let serving = read(&example());
    assert_eq!(validate(&serving), []);
    let model = serving.spec.model.as_ref().unwrap();
    assert_eq!(model.name, "Qwen2.5-7B-Instruct");
    assert_eq!(model.source.as_ref().unwrap().model_hub, "ModelScope");
    let again = serde_json::to_value(&serving).unwrap();
    assert_eq!(again["spec"], example()["spec"]);
    let more = with("/spec/model", json!({"name": "m", "tier": {"gold": true}}));
    assert_eq!(
        serde_json::to_value(more.spec.model).unwrap(),
        json!({"name": "m", "tier": {"gold": true}})
    );
}

#[test]
fn it_becomes_one_group_whose_pods_are_all_entries() {
    let serving = translate(&read(&example()));
    assert_eq!(serving.metadata.name.as_deref(), Some("qwen-inference"));
    assert_eq!(serving.metadata.annotations.as_ref().unwrap().len(), 2);
    assert_eq!(serving.spec.replicas, Some(1));
    assert_eq!(serving.spec.scheduler_name, "", "pods keep their own");
    assert_eq!(serving.spec.recovery_policy, "RoleRecreate");
    assert_eq!(serving.spec.rollout_strategy, None);
    let [role] = serving.spec.template.roles.as_slice() else { panic!("one role") };
    assert_eq!((role.name.as_str(), role.replicas, role.worker_replicas), ("worker", Some(2), 0));
    assert_eq!(role.worker_template, None);
    assert_eq!(role.entry_template.spec["containers"][0]["name"], "inference");
}

#[test]
fn what_is_not_said_has_a_default_and_what_is_said_stays() {
    let serving = translate(&with("/spec/roles/0/replicas", Value::Null));
    assert_eq!(serving.spec.template.roles[0].replicas, Some(1));
    let serving = translate(&with("/spec/recoveryPolicy", json!("None")));
    assert_eq!(serving.spec.recovery_policy, "None");
    let serving = translate(&with("/spec/schedulerName", json!("volcano")));
    assert_eq!(serving.spec.scheduler_name, "volcano");
}

#[test]
fn every_rule_names_its_field() {
    let role = |name: &str| json!({"name": name, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let invalid = "FieldValueInvalid";
    let cases = [
        ("/spec/roles", json!([]), vec![("spec.roles", "FieldValueRequired")]),
        (
            "/spec/roles",
            json!([role("a"), role("b"), role("a")]),
            vec![("spec.roles[2].name", "FieldValueDuplicate")],
        ),
        ("/spec/roles/0/name", json!("Worker"), vec![("spec.roles[0].name", invalid)]),
        ("/spec/roles/0/name", json!("0a"), vec![("spec.roles[0].name", invalid)]),
        ("/spec/roles/0/replicas", json!(-1), vec![("spec.roles[0].replicas", invalid)]),
        ("/spec/roles/0/replicas", json!(0), vec![]),
        (
            "/spec/roles/0/template/spec/containers/0/image",
            json!("  "),
            vec![("spec.roles[0].template.spec.containers[0].image", invalid)],
        ),
        (
            "/spec/roles/0/template/spec/containers",
            json!([]),
            vec![("spec.roles[0].template.spec.containers", "FieldValueRequired")],
        ),
        (
            "/spec/recoveryPolicy",
            json!("Always"),
            vec![("spec.recoveryPolicy", "FieldValueNotSupported")],
        ),
        ("/metadata/name", json!("Qwen"), vec![("metadata.name", invalid)]),
        ("/metadata/name", json!("qwen2.5-7b"), vec![]),
        ("/metadata/annotations", json!({"kthena.io/ranktable-level": "pod"}), vec![]),
    ];
    for (pointer, value, expected) in cases {
        let serving = with(pointer, value.clone());
        let expected: Vec<_> = expected.into_iter().map(|(f, k)| (f.to_owned(), k)).collect();
        assert_eq!(found(&serving), expected, "{pointer} {value}");
        assert!(validate(&serving).iter().all(|error| !error.remedy.is_empty()), "{pointer}");
    }
    let many: Vec<Value> = (0..17).map(|n| role(&format!("r{n}"))).collect();
    assert_eq!(
        found(&with("/spec/roles", json!(many))),
        [("spec.roles".to_owned(), "FieldValueTooMany")]
    );
}

#[test]
fn the_longest_pod_name_counts() {
    // 53 + "-worker-" + "9" is 62, of a hundred pods 63, of one more 64.
    let name = "a".repeat(53);
    let of = |replicas: i32| {
        let mut serving = with("/metadata/name", json!(name));
        serving.spec.roles[0].replicas = Some(replicas);
        found(&serving).len()
    };
    assert_eq!((of(10), of(100), of(101)), (0, 0, 1));
}
