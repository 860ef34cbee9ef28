//! The shipped definitions: an API server takes them, and they take, complete and refuse the right objects.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test reads its files"
)]

use muster_modelserving::defaults;
use muster_modelserving::shape::{Serving, Shape};
use muster_objects::schema::{Schema, crd};
use serde_json::{Value, json};

const KTHENA: &str = include_str!("../../../deploy/crds/modelserving.yaml");
const SHORT: &str = include_str!("../../../deploy/crds/modelserving-short.yaml");

fn definition(shape: Shape) -> Value {
    let text = if shape == Shape::Kthena { KTHENA } else { SHORT };
    let mut definition: Value = serde_saphyr::from_str(text).unwrap();
    crd::default_crd(&mut definition);
    definition
}

fn openapi(shape: Shape) -> Value {
    definition(shape)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

fn schema(shape: Shape) -> Schema {
    Schema::compile(&openapi(shape)).unwrap()
}

fn pod(image: &str) -> Value {
    json!({"spec": {"containers": [{"name": "engine", "image": image}]}})
}

fn kthena(spec: Value) -> Value {
    json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "llm", "namespace": "serve"}, "spec": spec})
}

fn short(spec: Value) -> Value {
    json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen", "namespace": "serve"}, "spec": spec})
}

/// Errors as field and reason.
fn refused(shape: Shape, mut object: Value, old: Option<Value>) -> Vec<String> {
    let schema = schema(shape);
    schema.prune(&mut object);
    schema.default(&mut object);
    let old = old.map(|mut old| {
        schema.default(&mut old);
        old
    });
    let errors = schema.validate(&object, old.as_ref());
    let shown = |e: muster_kube::FieldError| format!("{} {}", e.field, e.kind.reason());
    errors.into_iter().map(shown).filter(|text| !text.starts_with("<nil>")).collect()
}

#[test]
fn an_api_server_takes_both() {
    for shape in Shape::ALL {
        let definition = definition(shape);
        assert_eq!(crd::validate_crd(&definition), [], "{shape:?}");
        assert_eq!(definition["spec"]["group"], shape.group());
        assert!(definition["spec"]["versions"][0]["subresources"]["status"].is_object());
    }
    let scale = &definition(Shape::Kthena)["spec"]["versions"][0]["subresources"]["scale"];
    assert_eq!(scale["specReplicasPath"], ".spec.replicas");
}

#[test]
fn the_pods_of_a_role_have_one_schema() {
    let role = &openapi(Shape::Kthena)["properties"]["spec"]["properties"]["template"]["properties"]
        ["roles"]["items"]["properties"];
    let schema = |template: &str| {
        let mut schema = role[template].clone();
        schema.as_object_mut().unwrap().remove("description");
        schema
    };
    assert_eq!(schema("entryTemplate"), schema("workerTemplate"));
    let mut short = openapi(Shape::Short)["properties"]["spec"]["properties"]["roles"]["items"]["properties"]["template"].take();
    short.as_object_mut().unwrap().remove("description");
    short.as_object_mut().unwrap().remove("required");
    short["properties"]["spec"]["properties"]["containers"]
        .as_object_mut()
        .unwrap()
        .remove("minItems");
    assert_eq!(schema("entryTemplate"), short);
}

#[test]
fn the_defaults_are_those_of_the_definitions() {
    let objects = [
        kthena(
            json!({"template": {"roles": [{"name": "a", "workerReplicas": 0, "entryTemplate": pod("i")}]}}),
        ),
        kthena(
            json!({"replicas": 0, "schedulerName": "", "recoveryPolicy": "None", "plugins": [{"name": "p"}],
            "rolloutStrategy": {"rollingUpdateConfiguration": {}},
            "template": {"restartGracePeriodSeconds": 5, "gangPolicy": {},
                "networkTopology": {"groupPolicy": {}, "rolePolicy": {"mode": "soft"}},
                "roles": [{"name": "a", "replicas": 3}, {"name": "b", "maxUnavailable": "20%"}]}}),
        ),
        kthena(json!({"replicas": null, "rolloutStrategy": {}, "template": {}})),
        kthena(json!({})),
        short(
            json!({"roles": [{"name": "a", "template": pod("i")}, {"name": "b", "replicas": 0}]}),
        ),
        short(json!({"recoveryPolicy": "None", "schedulerName": "volcano"})),
    ];
    for object in objects {
        let shape = Shape::of(object["apiVersion"].as_str().unwrap()).unwrap();
        let (mut by_schema, mut by_code) = (object.clone(), object);
        schema(shape).default(&mut by_schema);
        defaults::fill(shape, &mut by_code);
        assert_eq!(by_code, by_schema);
    }
}

#[test]
fn pods_keep_what_is_not_listed_and_ports_get_a_protocol() {
    let mut template = pod("i");
    template["spec"]["fieldOfTomorrow"] = json!({"a": [1]});
    template["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    template["spec"]["containers"][0]["tomorrow"] = json!(true);
    template["spec"]["containers"][0]["resources"] =
        json!({"limits": {"huawei.com/npu": 8, "memory": "1Gi"}});
    template["extra"] = json!(1);
    let role = json!({"name": "a", "workerReplicas": 0, "entryTemplate": template});
    let mut object = kthena(json!({"template": {"roles": [role]}}));
    let schema = schema(Shape::Kthena);
    assert_eq!(schema.prune(&mut object), ["spec.template.roles[0].entryTemplate.extra"]);
    schema.default(&mut object);
    assert_eq!(schema.validate(&object, None), []);
    let spec = &object["spec"]["template"]["roles"][0]["entryTemplate"]["spec"];
    assert_eq!(spec["fieldOfTomorrow"], json!({"a": [1]}));
    assert_eq!(spec["containers"][0]["tomorrow"], json!(true));
    assert_eq!(spec["containers"][0]["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
}

#[test]
fn pods_that_no_api_server_would_create_are_refused() {
    let with = |containers: Value| {
        let entry = json!({"spec": {"containers": containers}});
        let role = json!({"name": "a", "workerReplicas": 0, "entryTemplate": entry});
        let at = "spec.template.roles[0].entryTemplate.spec.";
        let errors = refused(Shape::Kthena, kthena(json!({"template": {"roles": [role]}})), None);
        errors.iter().map(|error| error.replace(at, "")).collect::<Vec<_>>()
    };
    assert_eq!(with(json!([{"image": "i"}])), ["containers[0].name FieldValueRequired"]);
    assert_eq!(with(json!([{"name": "a"}, {"name": "a"}])), ["containers[1] FieldValueDuplicate"]);
    assert_eq!(
        with(json!([{"name": "a", "image": 7}])),
        ["containers[0].image FieldValueTypeInvalid"]
    );
    let limits = json!([{"name": "a", "resources": {"limits": {"cpu": "much"}}}]);
    assert_eq!(with(limits), ["containers[0].resources.limits.cpu FieldValueInvalid"]);
}

#[test]
fn the_short_form_takes_its_example() {
    let container = json!({"name": "inference", "image": "ascend-inference:latest",
        "resources": {"limits": {"ascend.com/npu": "8"}},
        "volumeMounts": [{"name": "ranktable", "mountPath": "/etc/ascend/ranktable", "readOnly": true}]});
    let mut object = short(json!({
        "model": {"name": "Qwen2.5-7B-Instruct", "source": {"modelHub": "ModelScope"}, "more": 1},
        "roles": [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}]}));
    let before = object.clone();
    let schema = schema(Shape::Short);
    assert_eq!(schema.prune(&mut object), [""; 0]);
    assert_eq!(object, before);
    schema.default(&mut object);
    assert_eq!(schema.validate(&object, None), []);
    assert_eq!(Serving::read(&object).unwrap().validate(), []);
}

#[test]
fn what_the_short_form_refuses() {
    let role = |name: &str| json!({"name": name, "template": pod("i")});
    let spec = |spec: Value| refused(Shape::Short, short(spec), None);
    assert_eq!(spec(json!({})), ["spec.roles FieldValueRequired"]);
    assert_eq!(spec(json!({"roles": []})), ["spec.roles FieldValueInvalid"]);
    let many: Vec<Value> = (0..17).map(|n| role(&format!("r{n}"))).collect();
    assert_eq!(spec(json!({"roles": many})), ["spec.roles FieldValueTooMany"]);
    assert_eq!(
        spec(json!({"roles": [role("a"), role("a")]})),
        ["spec.roles[1] FieldValueDuplicate"]
    );
    assert_eq!(spec(json!({"roles": [role("A")]})), ["spec.roles[0].name FieldValueInvalid"]);
    let mut few = role("a");
    few["replicas"] = json!(-1);
    assert_eq!(spec(json!({"roles": [few]})), ["spec.roles[0].replicas FieldValueInvalid"]);
    assert_eq!(
        spec(json!({"roles": [{"name": "a", "template": {}}]})),
        ["spec.roles[0].template.spec FieldValueRequired"]
    );
    let none = json!({"name": "a", "template": {"spec": {"containers": []}}});
    assert_eq!(
        spec(json!({"roles": [none]})),
        ["spec.roles[0].template.spec.containers FieldValueInvalid"]
    );
    assert_eq!(
        spec(json!({"roles": [role("a")], "recoveryPolicy": "Always"})),
        ["spec.recoveryPolicy FieldValueNotSupported"]
    );
}

#[test]
fn a_gang_policy_stays_once_it_is_set() {
    let with = |gang: Value| {
        let role =
            json!({"name": "a", "replicas": 2, "workerReplicas": 0, "entryTemplate": pod("i")});
        kthena(json!({"template": {"roles": [role], "gangPolicy": gang}}))
    };
    let one = || with(json!({"minRoleReplicas": {"a": 1}}));
    assert_eq!(refused(Shape::Kthena, one(), Some(one())), [""; 0]);
    assert_eq!(refused(Shape::Kthena, one(), Some(with(json!(null)))), [""; 0]);
    assert_eq!(
        refused(Shape::Kthena, with(json!({"minRoleReplicas": {"a": 2}})), Some(one())),
        ["spec.template.gangPolicy.minRoleReplicas FieldValueInvalid"]
    );
    assert_eq!(
        refused(Shape::Kthena, with(json!(null)), Some(one())),
        ["spec.template FieldValueInvalid"]
    );
}
