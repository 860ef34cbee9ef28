use serde_json::json;

use super::*;

fn kthena(role: Value) -> Value {
    json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "llm", "namespace": "serve"}, "spec": {"template": {"roles": [role]}}})
}

fn short(role: Value) -> Value {
    json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen"}, "spec": {"roles": [role]}})
}

#[test]
fn the_api_version_says_which_shape_it_is() {
    let read = Serving::read(&kthena(json!({"name": "a", "workerReplicas": 2}))).unwrap();
    assert_eq!(read.shape(), Shape::Kthena);
    let read = Serving::read(&short(json!({"name": "a", "replicas": 2}))).unwrap();
    assert_eq!(read.shape(), Shape::Short);
    let serving = read.into_model_serving();
    assert_eq!(serving.spec.template.roles.len(), 1);
    for shape in Shape::ALL {
        assert_eq!(Shape::of(shape.api_version()), Some(shape));
    }
    assert_eq!(Shape::of("workload.kthena.io/v2"), None);
}

#[test]
fn what_cannot_be_read_names_object_field_and_reason() {
    let why = |raw: Value| Serving::read(&raw).unwrap_err().to_string();
    assert_eq!(
        why(kthena(json!({"name": "a", "replicas": "two"}))),
        "ModelServing serve/llm cannot be read: spec.template.roles[0].replicas: invalid type: string \"two\", expected i32"
    );
    assert_eq!(
        why(short(json!({"name": "a", "template": {"spec": {"containers": {}}}}))),
        "ModelServing qwen cannot be read: spec.roles[0].template.spec.containers: use a list"
    );
    assert_eq!(
        why(kthena(json!({"entryTemplate": {"spec": {"containers": [{"image": 7}]}}}))),
        "ModelServing serve/llm cannot be read: spec.template.roles[0].entryTemplate.spec.containers[0].image: use a text"
    );
    assert_eq!(
        why(kthena(json!({"workerTemplate": {"spec": {"initContainers": ["x"]}}}))),
        "ModelServing serve/llm cannot be read: spec.template.roles[0].workerTemplate.spec.initContainers[0]: use an object"
    );
    assert_eq!(
        why(json!({"kind": "Pod"})),
        "Pod without a name cannot be read: kind: use ModelServing"
    );
    assert_eq!(
        why(json!([])),
        "object without a name cannot be read: the document: this is no object"
    );
    let other = why(json!({"apiVersion": "v1", "kind": "ModelServing"}));
    assert!(other.ends_with("or workload.kthena.io/v1alpha1"), "{other}");
}
