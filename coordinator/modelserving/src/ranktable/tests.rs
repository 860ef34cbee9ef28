use serde_json::{Value, json};

use super::*;
use crate::shape::Serving;

/// Two groups of prefill (2 instances of 1+1 pods) and decode (1 instance of 1+3 pods).
fn kthena(annotations: Value) -> ModelServing {
    let raw = json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "pd", "namespace": "serve", "annotations": annotations},
        "spec": {"replicas": 2, "template": {"roles": [
            {"name": "prefill", "replicas": 2, "workerReplicas": 1},
            {"name": "decode", "workerReplicas": 3}]}}});
    Serving::read(&raw).unwrap().into_model_serving()
}

fn short(annotations: Value) -> ModelServing {
    let raw = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen", "annotations": annotations},
        "spec": {"roles": [{"name": "worker", "replicas": 2}, {"name": "router"}]}});
    Serving::read(&raw).unwrap().into_model_serving()
}

fn slot<'a>(group: &'a str, role: &'a str, role_id: &'a str) -> Slot<'a> {
    Slot { group, role, role_id, index: 0 }
}

fn read(serving: &ModelServing, shape: Shape, template: Option<Level>) -> Ranktables {
    Ranktables::read(serving, shape, template).unwrap().unwrap()
}

/// Name and size of a pod's rank group.
fn group(wanted: &Ranktables, slot: &Slot<'_>) -> (String, u64) {
    let group = wanted.group(slot).unwrap();
    (group.name, group.size)
}

const TEMPLATE: &str = "kthena.io/ranktable-template";
const LEVEL: &str = "kthena.io/ranktable-level";

#[test]
fn without_a_template_there_are_no_tables() {
    for annotations in [json!(null), json!({}), json!({TEMPLATE: " "}), json!({LEVEL: "pod"})] {
        let serving = kthena(annotations.clone());
        assert_eq!(Ranktables::read(&serving, Shape::Kthena, None), Ok(None), "{annotations}");
        assert_eq!(Ranktables::template_of(&serving.metadata), None);
    }
}

#[test]
fn a_role_instance_shares_a_table() {
    let wanted = read(&kthena(json!({TEMPLATE: "t"})), Shape::Kthena, None);
    let at = slot("pd-1", "prefill", "prefill-0");
    assert_eq!(group(&wanted, &at), ("pd-1-prefill-0".into(), 2));
    assert_eq!(wanted.group(&at).unwrap().record(), "pd-1-prefill-0-ranktable");
    let at = slot("pd-0", "decode", "decode-0");
    assert_eq!(group(&wanted, &at), ("pd-0-decode-0".into(), 4));
}

#[test]
fn a_serving_group_shares_a_table() {
    let wanted = read(&kthena(json!({TEMPLATE: "t", LEVEL: "group"})), Shape::Kthena, None);
    let at = slot("pd-1", "decode", "decode-0");
    assert_eq!(group(&wanted, &at), ("pd-1".into(), 2 * 2 + 4));
}

#[test]
fn in_the_short_form_a_role_is_all_its_pods() {
    let wanted = read(&short(json!({TEMPLATE: "t"})), Shape::Short, None);
    let worker = slot("qwen-0", "worker", "worker-1");
    assert_eq!(group(&wanted, &worker), ("qwen-worker".into(), 2));
    assert_eq!(wanted.group(&worker).unwrap().record(), "qwen-worker-ranktable");
    let wanted = read(&short(json!({TEMPLATE: "t"})), Shape::Short, Some(Level::Group));
    assert_eq!(group(&wanted, &worker), ("qwen-0".into(), 3));
}

#[test]
fn the_annotation_wins_over_the_template() {
    let level = |annotations, template| {
        let wanted = read(&kthena(annotations), Shape::Kthena, template);
        group(&wanted, &slot("pd-0", "prefill", "prefill-1")).0
    };
    let (instance, whole) = ("pd-0-prefill-1", "pd-0");
    assert_eq!(level(json!({TEMPLATE: "t"}), None), instance);
    assert_eq!(level(json!({TEMPLATE: "t"}), Some(Level::Group)), whole);
    assert_eq!(level(json!({TEMPLATE: "t", LEVEL: "role"}), Some(Level::Group)), instance);
    assert_eq!(level(json!({TEMPLATE: "t", LEVEL: "group"}), Some(Level::Role)), whole);
}

#[test]
fn by_role_name_all_groups_share_a_table() {
    let scope = "kthena.io/ranktable-scope";
    let annotations = json!({TEMPLATE: "t", scope: "role-name"});
    let wanted = read(&kthena(annotations), Shape::Kthena, None);
    let at = slot("pd-1", "prefill", "prefill-0");
    assert_eq!(group(&wanted, &at), ("pd-prefill".into(), 2 * 2 * 2));
    let odd = kthena(json!({TEMPLATE: "t", scope: "all"}));
    let error = Ranktables::read(&odd, Shape::Kthena, None).unwrap_err();
    assert_eq!(error.reason(), "InvalidScope");
}

#[test]
fn an_unknown_level_is_named_with_its_remedy() {
    let serving = kthena(json!({TEMPLATE: "t", LEVEL: "pod"}));
    let error = Ranktables::read(&serving, Shape::Kthena, Some(Level::Role)).unwrap_err();
    assert_eq!(error.reason(), "InvalidLevel");
    assert_eq!(
        error.to_string(),
        "ModelServing serve/pd: annotation kthena.io/ranktable-level is \"pod\"; use role or group, or drop it for the level of the template"
    );
}

#[test]
fn pods_carry_what_injection_and_the_tables_read() {
    let annotations = json!({TEMPLATE: "t", "kthena.io/ranktable-timeout": "5m",
        "muster.dev/ranktable-delivery": "configmap", "kthena.io/ranktable-order": "numeric", "note": "x"});
    let wanted = read(&kthena(annotations), Shape::Kthena, None);
    let marks = wanted.marks(&slot("pd-0", "decode", "decode-0"));
    assert_eq!(
        (json!(marks.labels), json!(marks.annotations)),
        (
            json!({"muster.dev/rank-group": "pd-0-decode-0"}),
            json!({"muster.dev/rank-group-size": "4", "muster.dev/ranktable-template": "t",
                "kthena.io/ranktable-timeout": "5m", "muster.dev/ranktable-delivery": "configmap",
                "kthena.io/ranktable-order": "numeric"})
        )
    );
    assert_eq!(wanted.marks(&slot("pd-0", "gone", "gone-0")), Marks::default());
}

#[test]
fn what_a_pod_says_of_delivery_wins_and_its_group_does_not() {
    let delivery = "muster.dev/ranktable-delivery";
    let wanted = read(&kthena(json!({TEMPLATE: "t", delivery: "agent"})), Shape::Kthena, None);
    let own = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let mut labels = own("muster.dev/rank-group", "mine");
    let mut annotations = own(delivery, "configmap");
    annotations.insert("muster.dev/rank-group-size".to_owned(), "99".to_owned());
    wanted.marks(&slot("pd-0", "decode", "decode-0")).put_on(&mut labels, &mut annotations);
    assert_eq!(labels["muster.dev/rank-group"], "pd-0-decode-0");
    assert_eq!(annotations["muster.dev/rank-group-size"], "4");
    assert_eq!(annotations[delivery], "configmap");
}

#[test]
fn pods_of_an_older_template_count_by_its_roles() {
    let serving = kthena(json!({TEMPLATE: "t", LEVEL: "group"}));
    let mut old = serving.spec.template.roles.clone();
    old.truncate(1);
    let wanted = read(&serving, Shape::Kthena, None).of_roles(&old);
    assert_eq!(group(&wanted, &slot("pd-0", "prefill", "prefill-0")), ("pd-0".into(), 4));
}

#[test]
fn a_name_that_is_too_long_is_shortened_and_stays_its_own() {
    let mut serving = short(json!({TEMPLATE: "t"}));
    serving.metadata.name = Some("a".repeat(60));
    let wanted = read(&serving, Shape::Short, None);
    let at = |role| wanted.group(&slot("g", role, "x-0")).unwrap().name;
    let (worker, router) = (at("worker"), at("router"));
    assert_eq!(worker.len(), 63);
    assert_ne!(worker, router);
    assert_eq!(worker, at("worker"));
    assert_eq!(worker, format!("{}-{}", "a".repeat(52), &worker[53..]));
    assert_eq!(short::label("b".repeat(63)), "b".repeat(63));
    let dashes = format!("{}-----{}", "c".repeat(50), "d".repeat(20));
    assert!(short::label(dashes).starts_with(&format!("{}-", "c".repeat(50))));
    assert!(short::label("é".repeat(60)).len() <= 63);
}
