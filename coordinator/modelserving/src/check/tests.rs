use serde_json::{Value, json};

use super::known::Fields;
use super::*;

const KTHENA: &str = include_str!("../../../../deploy/crds/modelserving.yaml");
const SHORT: &str = include_str!("../../../../deploy/crds/modelserving-short.yaml");

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "engine", "image": "e:1"}]}})
}

fn kthena(spec: Value) -> Value {
    json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "llm"}, "spec": spec})
}

fn role(name: &str) -> Value {
    json!({"name": name, "workerReplicas": 0, "entryTemplate": pod()})
}

fn found(raw: &Value) -> Vec<String> {
    let shown = |e: FieldError| format!("{} {}", e.field, e.kind.reason());
    check(raw).into_iter().map(shown).collect()
}

/// Names of fields below a schema, as far as the table goes.
fn compare(fields: &Fields, schema: &Value, at: &str) {
    let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
    let known: Vec<&str> = fields.0.iter().map(|(name, _)| *name).collect();
    let mut defined: Vec<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    defined.sort_unstable();
    assert_eq!(known, defined, "{at}");
    for (name, below) in fields.0 {
        if let Some(below) = below {
            compare(below, &schema["properties"][name], &format!("{at}.{name}"));
        }
    }
}

#[test]
fn the_known_fields_are_those_of_the_definitions() {
    for (shape, text) in [(Shape::Kthena, KTHENA), (Shape::Short, SHORT)] {
        let definition: Value = serde_saphyr::from_str(text).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        compare(known::spec(shape), &schema["properties"]["spec"], "spec");
    }
}

#[test]
fn a_file_that_leaves_out_what_has_a_default_is_fine() {
    assert_eq!(found(&kthena(json!({"template": {"roles": [role("a")]}}))), [""; 0]);
    let short = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen"}, "spec": {"roles": [{"name": "w", "template": pod()}]}});
    assert_eq!(found(&short), [""; 0]);
}

#[test]
fn a_misspelt_field_is_found_wherever_it_is() {
    let mut odd = role("a");
    odd["workerReplica"] = json!(1);
    odd["entryTemplate"]["specs"] = json!({});
    odd["entryTemplate"]["spec"]["tomorrow"] = json!("is kept");
    let mut raw = kthena(json!({"replica": 2, "template": {"roles": [odd]}}));
    raw["extra"] = json!(1);
    let unknown: Vec<String> = check(&raw)
        .into_iter()
        .filter(|finding| finding.detail == UNKNOWN)
        .map(|finding| finding.field)
        .collect();
    assert_eq!(
        unknown,
        [
            "extra",
            "spec.replica",
            "spec.template.roles[0].entryTemplate.specs",
            "spec.template.roles[0].workerReplica"
        ]
    );
}

#[test]
fn the_limits_of_the_definition_are_known() {
    let with = |change: Value| {
        let mut spec = json!({"template": {"roles": [role("a")]}});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        found(&kthena(spec))
    };
    let roles = |roles: Value| with(json!({"template": {"roles": roles}}));
    assert_eq!(
        with(json!({"recoveryPolicy": "Always"})),
        ["spec.recoveryPolicy FieldValueNotSupported"]
    );
    assert_eq!(
        with(json!({"rolloutStrategy": {"type": "BlueGreen"}})),
        ["spec.rolloutStrategy.type FieldValueNotSupported"]
    );
    assert_eq!(
        with(json!({"plugins": [{"type": "Wasm"}]})),
        ["spec.plugins[0].type FieldValueNotSupported", "spec.plugins[0].name FieldValueRequired"]
    );
    let five: Vec<Value> = ["a", "b", "c", "d", "e"].map(role).into();
    assert_eq!(roles(json!(five)), ["spec.template.roles FieldValueTooMany"]);
    assert_eq!(
        roles(json!([role("a"), role("a")])),
        ["spec.template.roles[1].name FieldValueDuplicate"]
    );
    assert_eq!(
        roles(json!([role("abcdefghijklm")])),
        ["spec.template.roles[0].name FieldValueInvalid"]
    );
    assert_eq!(
        roles(json!([{"name": "a"}])),
        [
            "spec.template.roles[0].entryTemplate FieldValueRequired",
            "spec.template.roles[0].workerReplicas FieldValueRequired"
        ]
    );
    let policy = json!({"mode": "firm", "highestTierAllowed": -1, "highestTierName": 7});
    let template = json!({"roles": [role("a")], "networkTopology": {"rolePolicy": policy}});
    let at = "spec.template.networkTopology.rolePolicy";
    assert_eq!(
        with(json!({"template": template})),
        [
            format!("{at}.mode FieldValueNotSupported"),
            format!("{at}.highestTierAllowed FieldValueInvalid"),
            format!("{at}.highestTierName FieldValueInvalid")
        ]
    );
}

#[test]
fn what_would_become_a_condition_is_found_too() {
    let mut raw = kthena(json!({"template": {"roles": [role("a")]}}));
    raw["metadata"]["annotations"] =
        json!({"kthena.io/ranktable-template": "t", "kthena.io/ranktable-level": "pod"});
    let [finding] = &check(&raw)[..] else { panic!("one finding") };
    assert_eq!(finding.field, "metadata.annotations[kthena.io/ranktable-level]");
    assert_eq!(finding.detail, "InvalidLevel");
    assert!(finding.remedy.starts_with("use role or group"));
}

#[test]
fn what_cannot_be_read_is_one_finding() {
    let raw = kthena(json!({"replicas": "two", "template": {"roles": [role("a")]}}));
    let [finding] = &check(&raw)[..] else { panic!("one finding") };
    assert_eq!(finding.field, "spec.replicas");
    assert_eq!(finding.bad_value, muster_kube::BadValue::Json("two".into()));
    assert_eq!(found(&json!({"kind": "ModelServing"})), ["apiVersion FieldValueInvalid"]);
    assert_eq!(found(&json!("text")).len(), 1);
}
