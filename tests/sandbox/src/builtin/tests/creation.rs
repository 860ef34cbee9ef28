//! New objects: what is filled in, what is refused.

use super::*;

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
