//! Tables of objects as they come in and as the API server keeps them. The expected values are
//! what a real kube-apiserver 1.34 answered.

use muster_objects::status::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod changes;
mod creation;

fn named(mut object: Value) -> Value {
    let meta = object["metadata"].take();
    let mut base = json!({"name": "x", "namespace": "default", "uid": "u"});
    for (key, value) in meta.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    object["metadata"] = base;
    object
}

fn create(group: &str, kind: &str, object: Value) -> Result<Value, Status> {
    let (mut object, _) = decode(group, kind, named(object))?;
    default(group, kind, &mut object);
    let cx = Prepare {
        now: "2026-01-01T00:00:00Z",
        allocate_ip: &|| "10.96.0.10".to_owned(),
        allocate_port: &|| 30100,
    };
    prepare_create(group, kind, &mut object, &cx);
    let errors = validate_create(group, kind, &object);
    if errors.is_empty() { Ok(object) } else { Err(Status::invalid(group, kind, "x", &errors)) }
}

fn update(group: &str, kind: &str, new: Value, old: &Value) -> Result<Value, Status> {
    let (mut new, _) = decode(group, kind, new)?;
    default(group, kind, &mut new);
    prepare_update(group, kind, &mut new, old);
    let errors = validate_update(group, kind, &new, old);
    if errors.is_empty() { Ok(new) } else { Err(Status::invalid(group, kind, "x", &errors)) }
}

fn pod(spec: Value) -> Value {
    let mut base = json!({"containers": [{"name": "c", "image": "busybox"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    json!({"spec": base})
}

fn template(policy: &str) -> Value {
    json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": policy},
    })
}

/// One object per kind, each with something to default.
fn samples() -> Vec<(&'static str, &'static str, Value)> {
    let selector = json!({"matchLabels": {"a": "b"}});
    let set = json!({"spec": {"selector": selector, "template": template("Always")}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "User", "name": "u"}]);
    let role = json!({"kind": "ClusterRole", "name": "r"});
    vec![
        ("", "Pod", pod(json!({"volumes": [{"name": "v"}], "nodeSelector": {}}))),
        ("", "Service", json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}})),
        ("", "ConfigMap", json!({"data": {"a": "b"}})),
        ("", "Secret", json!({"stringData": {"a": "b"}})),
        ("", "ServiceAccount", json!({})),
        ("", "ReplicationController", json!({"spec": {"template": template("Always")}})),
        ("", "LimitRange", json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": 2}}]}})),
        ("", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"]}})),
        ("", "Event", json!({"involvedObject": {"namespace": "default"}})),
        ("apps", "Deployment", set.clone()),
        ("apps", "ReplicaSet", set.clone()),
        ("apps", "StatefulSet", set.clone()),
        ("apps", "DaemonSet", set),
        ("batch", "Job", json!({"spec": {"template": template("Never")}})),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template("Never")}}}}),
        ),
        ("policy", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1}})),
        ("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "a"}})),
        ("rbac.authorization.k8s.io", "Role", json!({"rules": rules})),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": role, "subjects": subjects}),
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "ports": [{"port": 1}]}),
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}),
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "behavior": {}}}),
        ),
    ]
}

#[test]
fn what_is_stored_reads_and_defaults_to_itself() {
    for (group, kind, object) in samples() {
        let stored = create(group, kind, object).unwrap_or_else(|e| panic!("{kind}: {e}"));
        let (mut again, unknown) = decode(group, kind, stored.clone()).unwrap();
        default(group, kind, &mut again);
        assert_eq!(unknown, Vec::<String>::new(), "{kind}");
        assert_eq!(again, stored, "{kind}");
    }
}

#[test]
fn an_unchanged_object_passes_an_update_and_keeps_its_generation() {
    for (group, kind, object) in samples() {
        let mut stored = create(group, kind, object).unwrap();
        stored["metadata"]["resourceVersion"] = json!("1");
        let same = update(group, kind, stored.clone(), &stored);
        assert_eq!(same.unwrap_or_else(|e| panic!("{kind}: {e}")), stored, "{kind}");
    }
}

#[test]
fn unknown_fields_are_dropped_and_named_by_their_path() {
    let mut object = pod(json!({"foo": 1}));
    object["spec"]["containers"][0]["bar"] = json!({"a": 1});
    let (read, unknown) = decode("", "Pod", named(object)).unwrap();
    assert_eq!(unknown, ["unknown field \"spec.containers[0].bar\"", "unknown field \"spec.foo\""]);
    assert_eq!(read["spec"].get("foo"), None);
}

#[test]
fn a_status_write_changes_the_status_and_what_the_kind_lets_through() {
    let old = create("", "Pod", pod(json!({}))).unwrap();
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    new["spec"]["nodeName"] = json!("n");
    new["metadata"]["labels"] = json!({"a": "b"});
    new["metadata"]["ownerReferences"] = json!([{"uid": "z"}]);
    prepare_status("", "Pod", &mut new, &old);
    assert_eq!(new["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(new["metadata"].get("ownerReferences"), None);
}

#[test]
fn an_event_survives_the_way_into_the_other_view_and_back() {
    let core = create(
        "",
        "Event",
        json!({"involvedObject": {"namespace": "default", "name": "p"}, "message": "m", "reason": "r"}),
    )
    .unwrap();
    let events = event_to_v1(&core);
    assert_eq!(events["regarding"], core["involvedObject"]);
    assert_eq!(events["note"], json!("m"));
    assert_eq!(events.get("reportingController"), None);
    let mut back = event_from_v1(&events);
    let fields = back.as_object_mut().unwrap();
    fields.remove("kind");
    fields.remove("apiVersion");
    assert_eq!(back, core);
}

#[test]
fn times_are_read_strictly_and_printed_in_utc() {
    let cases = [
        ("2026-01-01T02:00:00+02:00", false, Ok("2026-01-01T00:00:00Z")),
        ("2026-01-01T00:00:00.9Z", false, Ok("2026-01-01T00:00:00Z")),
        ("2026-01-01T00:00:00.000001Z", true, Ok("2026-01-01T00:00:00.000001Z")),
        (
            "2026-13-01T00:00:00Z",
            false,
            Err("parsing time \"2026-13-01T00:00:00Z\": month out of range"),
        ),
        (
            "2026-01-01",
            false,
            Err(
                "parsing time \"2026-01-01\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\"",
            ),
        ),
    ];
    for (text, micros, expected) in cases {
        let read = instant::canonical(text, micros);
        assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..100).prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            Just("spec".to_owned()),
            Just("metadata".to_owned()),
            Just("labels".to_owned()),
            Just("containers".to_owned()),
            Just("name".to_owned()),
            Just("template".to_owned()),
            Just("ports".to_owned()),
            Just("status".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reading_and_defaulting_twice_is_the_same_as_once(object in any_json(), which in 0usize..22) {
        let (group, kind, _) = samples().swap_remove(which);
        if let Ok((mut once, _)) = decode(group, kind, object) {
            default(group, kind, &mut once);
            let (mut twice, unknown) = decode(group, kind, once.clone()).unwrap();
            default(group, kind, &mut twice);
            prop_assert!(unknown.is_empty());
            prop_assert_eq!(twice, once);
        }
    }
}
