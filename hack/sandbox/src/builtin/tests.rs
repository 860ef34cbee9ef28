//! Tables of objects as they come in and as the API server keeps them. The expected values are
//! what a real kube-apiserver 1.34 answered.

use muster_objects::status::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

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
fn a_pod_is_stored_with_the_defaults_of_the_api() {
    let stored = create("", "Pod", pod(json!({}))).unwrap();
    assert_eq!(
        stored,
        json!({
            "metadata": {"name": "x", "namespace": "default", "uid": "u", "generation": 1},
            "spec": {
                "containers": [{
                    "name": "c",
                    "image": "busybox",
                    "imagePullPolicy": "Always",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    );
}

#[test]
fn defaults_appear_where_the_api_has_them() {
    let limits = json!({"cpu": 1, "memory": "1024Mi", "nvidia.com/gpu": "2"});
    let cases = [
        (
            "",
            "Pod",
            pod(
                json!({"containers": [{"name": "c", "image": "b:1", "resources": {"limits": limits}}]}),
            ),
            "/spec/containers/0/resources/requests",
            json!({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}),
        ),
        (
            "",
            "Pod",
            pod(
                json!({"containers": [{"name": "c", "image": "b", "resources": {"limits": limits}}]}),
            ),
            "/status/qosClass",
            json!("Guaranteed"),
        ),
        (
            "",
            "Pod",
            pod(json!({"containers": [{"name": "c", "image": "r.io:5000/a/b"}]})),
            "/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            "",
            "Pod",
            pod(json!({"containers": [{"name": "c", "image": "r.io:5000/a/b:v1"}]})),
            "/spec/containers/0/imagePullPolicy",
            json!("IfNotPresent"),
        ),
        (
            "",
            "Pod",
            pod(json!({"volumes": [{"name": "v"}]})),
            "/spec/volumes/0",
            json!({"name": "v", "emptyDir": {}}),
        ),
        (
            "",
            "Pod",
            pod(json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}]})),
            "/spec/volumes/0/configMap/defaultMode",
            json!(420),
        ),
        (
            "",
            "Pod",
            pod(json!({"schedulingGates": [{"name": "g"}]})),
            "/status/conditions/0/reason",
            json!("SchedulingGated"),
        ),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80}]}}),
            "/spec",
            json!({
                "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "None", "type": "ClusterIP",
            }),
        ),
        (
            "",
            "Service",
            json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
            "/spec/clusterIPs",
            json!(["None"]),
        ),
        (
            "",
            "Service",
            json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
            "/spec/ports/0/nodePort",
            json!(30100),
        ),
        ("", "Secret", json!({"stringData": {"a": "b"}}), "/data", json!({"a": "Yg=="})),
        (
            "",
            "Namespace",
            json!({"metadata": {"namespace": ""}}),
            "/spec/finalizers",
            json!(["kubernetes"]),
        ),
        (
            "",
            "Namespace",
            json!({"metadata": {"namespace": ""}}),
            "/metadata/labels",
            json!({"kubernetes.io/metadata.name": "x"}),
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"template": template("Never")}}),
            "/metadata/labels/job-name",
            json!("x"),
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"template": template("Never")}}),
            "/spec/selector",
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}),
        ),
        (
            "batch",
            "Job",
            json!({"metadata": {"labels": {"own": "one"}}, "spec": {"template": template("Never")}}),
            "/metadata/labels",
            json!({"own": "one"}),
        ),
        (
            "apps",
            "DaemonSet",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")}}),
            "/status",
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ),
        ("rbac.authorization.k8s.io", "Role", json!({"rules": []}), "/rules", Value::Null),
        (
            "",
            "Event",
            json!({"involvedObject": {"namespace": "default"}}),
            "/firstTimestamp",
            Value::Null,
        ),
    ];
    for (group, kind, object, path, expected) in cases {
        let stored =
            create(group, kind, object.clone()).unwrap_or_else(|e| panic!("{object}: {e}"));
        assert_eq!(stored.pointer(path), Some(&expected), "{kind} {path} of {object}");
    }
}

#[test]
fn bad_objects_are_refused_in_the_words_of_kubernetes() {
    let cases = [
        (
            "",
            "Pod",
            pod(json!({"hostNetwork": "yes"})),
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            "",
            "Pod",
            pod(json!({"containers": {}})),
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "",
            "Pod",
            json!({"metadata": {"labels": {"a": 1}}}),
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "",
            "Pod",
            pod(
                json!({"containers": [{"name": "c", "image": "b", "resources": {"limits": {"cpu": "abc"}}}]}),
            ),
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.5Z"}}),
            "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-01-01T00:00:00.5Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".5Z\" as \".000000\"",
        ),
        (
            "",
            "Pod",
            pod(json!({"containers": []})),
            "Pod \"x\" is invalid: spec.containers: Required value",
        ),
        (
            "",
            "Pod",
            pod(json!({"restartPolicy": "Maybe"})),
            "Pod \"x\" is invalid: spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            "",
            "Pod",
            pod(
                json!({"containers": [{"name": "c", "image": "b", "volumeMounts": [{"name": "q", "mountPath": "/a"}]}]}),
            ),
            "Pod \"x\" is invalid: spec.containers[0].volumeMounts[0].name: Not found: \"q\"",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"name": "A"}}),
            "ConfigMap \"x\" is invalid: metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"finalizers": ["foo"]}}),
            "ConfigMap \"x\" is invalid: metadata.finalizers[0]: Invalid value: \"foo\": name is neither a standard finalizer name nor is it fully qualified",
        ),
        (
            "",
            "Service",
            json!({"spec": {}}),
            "Service \"x\" is invalid: spec.ports: Required value",
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"template": template("Always")}}),
            "Job.batch \"x\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "apps",
            "Deployment",
            json!({"spec": {}}),
            "Deployment.apps \"x\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]",
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["a"]}]}),
            "Role.rbac.authorization.k8s.io \"x\" is invalid: rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": "200%"}}),
            "PodDisruptionBudget.policy \"x\" is invalid: spec.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
        ),
    ];
    for (group, kind, object, expected) in cases {
        let refused = create(group, kind, object.clone());
        assert_eq!(refused.map_err(|e| e.message), Err(expected.to_owned()), "{object}");
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
fn what_may_not_change_is_refused_and_what_may_counts_as_a_generation() {
    let stored = |group: &str, kind: &str, object: Value| {
        let mut stored = create(group, kind, object).unwrap();
        stored["metadata"]["resourceVersion"] = json!("1");
        stored
    };
    let secret = stored("", "Secret", json!({"immutable": true, "data": {"a": "Yg=="}}));
    let deployment = stored(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")}}),
    );
    let job = stored("batch", "Job", json!({"spec": {"template": template("Never")}}));
    let service = stored("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    let pod = stored("", "Pod", pod(json!({})));
    let cases = [
        ("", "Secret", &secret, "/data/a", json!("Yw=="), Err("data")),
        ("apps", "Deployment", &deployment, "/spec/replicas", json!(3), Ok(Some(2))),
        (
            "apps",
            "Deployment",
            &deployment,
            "/spec/selector/matchLabels/a",
            json!("c"),
            Err("spec.template.metadata.labels"),
        ),
        ("batch", "Job", &job, "/spec/completions", json!(4), Err("spec.completions")),
        ("batch", "Job", &job, "/spec/parallelism", json!(4), Ok(Some(2))),
        (
            "batch",
            "Job",
            &job,
            "/spec/template/spec/dnsPolicy",
            json!("Default"),
            Err("spec.template"),
        ),
        (
            "",
            "Service",
            &service,
            "/spec/clusterIP",
            json!("10.96.0.99"),
            Err("spec.clusterIPs[0]"),
        ),
        ("", "Service", &service, "/spec/ports/0/port", json!(81), Ok(None)),
        ("", "Pod", &pod, "/spec/containers/0/image", json!("other"), Ok(Some(2))),
        ("", "Pod", &pod, "/spec/dnsPolicy", json!("Default"), Err("spec")),
        ("", "Pod", &pod, "/status/phase", json!("Running"), Ok(Some(1))),
    ];
    for (group, kind, old, path, value, expected) in cases {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        let result = update(group, kind, new, old);
        match expected {
            Ok(generation) => {
                let changed = result.unwrap_or_else(|e| panic!("{kind} {path}: {e}"));
                let counted = changed["metadata"].get("generation").and_then(Value::as_i64);
                assert_eq!(counted, generation, "{kind} {path}");
                assert_eq!(changed.get("status"), old.get("status"), "{kind} {path}");
            }
            Err(field) => {
                let refused = result.expect_err(path);
                let causes = refused.details.unwrap().causes;
                assert!(
                    causes.iter().any(|cause| cause.field == field),
                    "{kind} {path}: {causes:?}"
                );
            }
        }
    }
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
