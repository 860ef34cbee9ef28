//! The shipped definitions are those that follow from the types; an API server takes them, and they keep what people
//! write.

use muster_dijob::api::{self, AggregatorConfig, DIJob};
use muster_dijob::crd;
use muster_objects::schema::{Schema, crd as check};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/dijob.yaml");
const HEAD: &str = "# DIJob and AggregatorConfig. Written by `MUSTER_WRITE_CRDS=1 cargo test -p muster-dijob shipped`.\n";

fn schema(definition: &Value) -> Schema {
    Schema::compile(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
}

fn pod() -> Value {
    json!({"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"tomorrow": [1], "containers": [{"name": "di-container", "also": {"new": true}}]}}})
}

fn job() -> Value {
    json!({"apiVersion": api::API_VERSION, "kind": api::KIND, "metadata": {"name": "cartpole"},
        "spec": {"group": "g", "priorityClassName": "high", "cleanPodPolicy": "All",
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
            "coordinator": pod(), "collector": pod(), "learner": pod()},
        "status": {"phase": "Running", "replicaStatus": {"Collector": {"active": 2, "succeeded": 1, "failed": 3}},
            "conditions": [{"type": "Created", "status": "True", "reason": "r", "message": "m",
                "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

#[test]
fn the_shipped_definitions_are_those_of_the_types() {
    let made = [crd::dijob(), crd::aggregator_config()];
    if std::env::var_os("MUSTER_WRITE_CRDS").is_some() {
        let text = made.iter().map(|one| serde_saphyr::to_string(one).unwrap());
        std::fs::write(FILE, format!("{HEAD}{}", text.collect::<Vec<_>>().join("---\n"))).unwrap();
    }
    let text = std::fs::read_to_string(FILE).unwrap();
    let shipped: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(shipped, made, "MUSTER_WRITE_CRDS=1 writes them anew");
    assert!(text.len() < 30_000, "kubectl apply must be able to remember it: {} bytes", text.len());
}

#[test]
fn an_api_server_takes_both() {
    for (definition, name) in
        [(crd::dijob(), api::DEFINITION), (crd::aggregator_config(), api::AGGREGATOR_DEFINITION)]
    {
        let mut definition = definition;
        check::default_crd(&mut definition);
        assert_eq!(check::validate_crd(&definition), [], "{name}");
        assert_eq!(definition["metadata"]["name"], name);
    }
}

#[test]
fn every_field_of_the_types_is_kept() {
    let mut object = job();
    let schema = schema(&crd::dijob());
    assert_eq!(schema.prune(&mut object), [""; 0]);
    assert_eq!(object, job());
    assert_eq!(schema.validate(&object, None), []);
    let read: DIJob = api::read(&object).unwrap();
    let mut written = serde_json::to_value(&read).unwrap();
    written["apiVersion"] = api::API_VERSION.into();
    written["kind"] = api::KIND.into();
    assert_eq!(written, object, "what is read is what was written");
}

#[test]
fn an_aggregator_config_has_a_template() {
    let schema = schema(&crd::aggregator_config());
    let object = |spec: Value| {
        json!({"apiVersion": api::API_VERSION, "kind": api::AGGREGATOR_KIND,
        "metadata": {"name": "aggregator-config"}, "spec": spec})
    };
    let good = object(json!({"aggregator": pod()}));
    assert_eq!(schema.validate(&good, None), []);
    let read: AggregatorConfig = api::read(&good).unwrap();
    assert!(muster_dijob::make::has_containers(&read.spec.aggregator.template));
    assert!(!schema.validate(&object(json!({})), None).is_empty());
}

#[test]
fn the_policy_is_filled_in_also_without_a_webhook() {
    let mut object = job();
    object["spec"].as_object_mut().unwrap().remove("cleanPodPolicy");
    schema(&crd::dijob()).default(&mut object);
    assert_eq!(object["spec"]["cleanPodPolicy"], "Running");
}

#[test]
fn a_job_without_a_coordinator_or_containers_is_refused() {
    let schema = schema(&crd::dijob());
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut object = job();
        change(&mut object);
        !schema.validate(&object, None).is_empty()
    };
    assert!(refused(&|job| drop(job["spec"].as_object_mut().unwrap().remove("coordinator"))));
    assert!(refused(&|job| job["spec"]["learner"]["template"]["spec"]["containers"] = json!([])));
    assert!(refused(&|job| job["spec"]["learner"] = json!({"template": {}})));
}
