//! The table of built-ins and the shapes of custom resources.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;

fn at(shape: &Shape, path: &[&str]) -> Shape {
    path.iter().fold(shape.clone(), |shape, key| match shape.resolve() {
        Shape::List(list) => list.item.as_map().unwrap().at(key).unwrap().clone(),
        other => other.as_map().unwrap().at(key).unwrap().clone(),
    })
}

fn keys(shape: &Shape) -> ListKind {
    shape.as_list().unwrap().kind.clone()
}

#[test]
fn lists_of_the_built_ins_merge_as_their_types_say() {
    let cases: &[(&str, &str, &[&str], ListKind)] = &[
        ("", "Pod", &["spec", "containers"], ListKind::by(["name"])),
        ("", "Pod", &["spec", "containers", "ports"], ListKind::by(["containerPort", "protocol"])),
        ("", "Pod", &["spec", "containers", "args"], ListKind::Atomic),
        ("", "Pod", &["spec", "tolerations"], ListKind::Atomic),
        (
            "",
            "Pod",
            &["spec", "topologySpreadConstraints"],
            ListKind::by(["topologyKey", "whenUnsatisfiable"]),
        ),
        ("", "Pod", &["status", "conditions"], ListKind::by(["type"])),
        ("", "Pod", &["metadata", "finalizers"], ListKind::Set),
        ("", "Service", &["spec", "ports"], ListKind::by(["port", "protocol"])),
        ("batch", "Job", &["spec", "template", "spec", "volumes"], ListKind::by(["name"])),
        ("rbac.authorization.k8s.io", "Role", &["rules"], ListKind::Atomic),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            &["webhooks"],
            ListKind::by(["name"]),
        ),
        ("unknown.io", "Thing", &["metadata", "ownerReferences"], ListKind::by(["uid"])),
    ];
    for (group, kind, path, expected) in cases {
        assert_eq!(keys(&at(&Shape::builtin(group, kind), path)), *expected, "{kind} {path:?}");
    }
}

#[test]
fn every_type_of_the_table_is_known() {
    let mut pending = vec![Shape::builtin("", "Pod"), Shape::builtin("apps", "Deployment")];
    let mut fields = 0;
    let mut seen = std::collections::HashSet::new();
    while let Some(shape) = pending.pop() {
        if let Shape::Named(index) = shape
            && !seen.insert(index)
        {
            continue;
        }
        match shape.resolve() {
            Shape::Map(map) => {
                fields += map.fields.len();
                let known = map.fields.iter().filter(|f| &*f.name != "fieldsV1");
                pending.extend(known.map(|f| f.shape.clone()));
                pending.extend(map.rest.clone());
            }
            Shape::List(list) => pending.push(list.item.clone()),
            Shape::Any => panic!("a type of Pod or Deployment is not in the table"),
            _ => {}
        }
    }
    assert!(fields > 500, "{fields}");
}

#[test]
fn a_custom_resource_has_the_metadata_of_all_objects() {
    let shape = Shape::from_openapi(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}}}));
    assert_eq!(keys(&at(&shape, &["metadata", "finalizers"])), ListKind::Set);
    assert_eq!(keys(&at(&shape, &["spec", "l"])), ListKind::Set);
    assert!(shape.as_map().unwrap().at("bogus").is_none());
}

#[test]
fn a_pod_is_completed_as_the_server_writes_it() {
    let mut pod =
        json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "a"}], "volumes": []}});
    Shape::builtin("", "Pod").complete(&mut pod);
    let expected = json!({"metadata": {}, "status": {},
        "spec": {"containers": [{"name": "a", "resources": {}}]}});
    assert_eq!(pod, expected);
}
