//! The compiled-in plugins, by table.

use super::*;

fn admit(attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
    let plugins = plugins();
    plugins.iter().try_for_each(|plugin| plugin.admit(attempt, store))?;
    plugins.iter().try_for_each(|plugin| plugin.validate(attempt, store))
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"namespace": "a", "name": "p"}, "spec": spec})
}

#[test]
fn a_plain_pod_gets_account_token_priority_and_tolerations() {
    let (store, user) = (store(), User::admin());
    let mut attempt = create(&user, "pods", pod(json!({"containers": [{"name": "m"}]})));
    admit(&mut attempt, &store).unwrap();
    let spec = &attempt.object.as_ref().unwrap()["spec"];
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == "kube-api-access-".len() + 5);
    let tolerate = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    assert_eq!(
        *spec,
        json!({
            "containers": [{"name": "m", "volumeMounts": [{"name": volume, "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
            "volumes": [{"name": volume, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}],
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [tolerate("node.kubernetes.io/not-ready"), tolerate("node.kubernetes.io/unreachable")],
        })
    );
    let once = attempt.object.clone();
    admit(&mut attempt, &store).unwrap();
    assert_eq!(attempt.object, once);
}

#[test]
fn a_pod_without_automount_gets_no_volume() {
    let (store, user) = (store(), User::admin());
    let spec = json!({"containers": [{"name": "m"}], "automountServiceAccountToken": false});
    let mut attempt = create(&user, "pods", pod(spec));
    admit(&mut attempt, &store).unwrap();
    let spec = &attempt.object.as_ref().unwrap()["spec"];
    assert!(spec.get("volumes").is_none() && spec["containers"] == json!([{"name": "m"}]));
}

#[test]
fn tolerations_of_a_pods_own_stay() {
    let (store, user) = (store(), User::admin());
    for (own, expected) in [
        (json!([{"operator": "Exists"}]), 1),
        (json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]), 2),
        (json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), 3),
        (json!([{"key": "x"}]), 3),
    ] {
        let mut attempt = create(&user, "pods", pod(json!({"tolerations": own})));
        admit(&mut attempt, &store).unwrap();
        let tolerations = attempt.object.unwrap()["spec"]["tolerations"].clone();
        assert_eq!(tolerations.as_array().unwrap().len(), expected, "{own}");
    }
}

#[test]
fn refused_pods_and_classes_say_why() {
    let (store, user) = (store(), User::admin());
    let classes = "priorityclasses.scheduling.k8s.io";
    put(
        &store,
        classes,
        json!({"metadata": {"name": "high"}, "value": 1000, "globalDefault": true, "preemptionPolicy": "Never"}),
    );
    for (resource, object, expected) in [
        (
            "pods",
            pod(json!({"serviceAccountName": "x"})),
            "pods \"p\" is forbidden: error looking up service account a/x: serviceaccount \"x\" not found",
        ),
        (
            "pods",
            json!({"metadata": {"generateName": "p-"}, "spec": {"priorityClassName": "none"}}),
            "pods \"p-\" is forbidden: no PriorityClass with name none was found",
        ),
        (
            "pods",
            pod(json!({"priority": 7})),
            "pods \"p\" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name",
        ),
        (
            "pods",
            pod(json!({"preemptionPolicy": "PreemptLowerPriority"})),
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
        ),
        (
            "priorityclasses",
            json!({"metadata": {"name": "low"}, "globalDefault": true}),
            "priorityclasses.scheduling.k8s.io \"low\" is forbidden: PriorityClass high is already marked as default. Only one default can exist",
        ),
    ] {
        let status = admit(&mut create(&user, resource, object), &store).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (403, expected));
    }
    let mut attempt =
        create(&user, "pods", pod(json!({"priorityClassName": "system-node-critical"})));
    admit(&mut attempt, &store).unwrap();
    assert_eq!(attempt.object.unwrap()["spec"]["priority"], 2_000_001_000);
    let mut attempt = create(&user, "pods", pod(json!({})));
    admit(&mut attempt, &store).unwrap();
    assert_eq!(attempt.object.unwrap()["spec"]["priorityClassName"], "high");
}

#[test]
fn an_update_keeps_the_priority_that_it_leaves_out() {
    let (store, user) = (store(), User::admin());
    let old = pod(json!({"priority": 5, "preemptionPolicy": "Never"}));
    let mut attempt = create(&user, "pods", pod(json!({})));
    attempt.operation = Operation::Update;
    attempt.old = Some(&old);
    admit(&mut attempt, &store).unwrap();
    assert_eq!(attempt.object.unwrap()["spec"]["priority"], 5);
}

#[test]
fn namespaces_guard_their_content_and_some_themselves() {
    let (store, user) = (store(), User::admin());
    let object = || json!({"metadata": {"name": "c"}});
    let mut attempt = create(&user, "configmaps", object());
    attempt.namespace = "none";
    let status = admit(&mut attempt, &store).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (404, "namespaces \"none\" not found"));
    attempt.namespace = "old";
    let status = admit(&mut attempt, &store).unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: unable to create new content in namespace old because it is being terminated"
    );
    assert_eq!(status.details.unwrap().causes[0].reason, "NamespaceTerminating");
    attempt.operation = Operation::Update;
    assert!(admit(&mut attempt, &store).is_ok());

    for (name, allowed) in
        [("default", false), ("kube-system", false), ("kube-public", false), ("a", true)]
    {
        let mut attempt = create(&user, "namespaces", Value::Null);
        (attempt.operation, attempt.object, attempt.name) = (Operation::Delete, None, name);
        let got = admit(&mut attempt, &store).map_err(|status| status.message);
        let refusal =
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        assert_eq!(got, if allowed { Ok(()) } else { Err(refusal) });
    }
}

#[test]
fn a_new_node_is_tainted_once() {
    let (store, user) = (store(), User::admin());
    let mut attempt = create(&user, "nodes", json!({"metadata": {"name": "n1"}}));
    admit(&mut attempt, &store).unwrap();
    admit(&mut attempt, &store).unwrap();
    assert_eq!(
        attempt.object.unwrap()["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
}

#[test]
fn a_kubelet_writes_only_what_is_its_own() {
    let (store, kubelet) = (store(), User::node("n1"));
    let on = |node: &str| json!({"metadata": {"namespace": "a", "name": node, "uid": "u"}, "spec": {"nodeName": node}});
    put(&store, "pods", on("n1"));
    put(&store, "pods", on("n2"));
    put(&store, "namespaces", json!({"metadata": {"name": "kube-node-lease"}}));
    let named = |name: &str| json!({"metadata": {"name": name}});
    let labelled = |key: &str| json!({"metadata": {"name": "n1", "labels": {key: "x"}}});
    for (resource, object, expected) in [
        ("nodes", named("n1"), ""),
        ("nodes", named("n2"), "node \"n1\" is not allowed to modify node \"n2\""),
        ("nodes", labelled("topology.kubernetes.io/zone"), ""),
        ("nodes", labelled("node.kubernetes.io/x"), ""),
        ("nodes", labelled("example.com/x"), ""),
        (
            "nodes",
            labelled("kubernetes.io/x"),
            "node \"n1\" is not allowed to set the following labels: kubernetes.io/x",
        ),
        (
            "nodes",
            labelled("node-restriction.kubernetes.io/x"),
            "node \"n1\" is not allowed to set the following labels: node-restriction.kubernetes.io/x",
        ),
        ("leases", named("n1"), ""),
        (
            "leases",
            named("n2"),
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "pods",
            pod(json!({"nodeName": "n1"})),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
        ),
    ] {
        let got = admit(&mut create(&kubelet, resource, object.clone()), &store);
        let got = got.map_err(|status| status.message).err().unwrap_or_default();
        assert!(
            if expected.is_empty() { got.is_empty() } else { got.ends_with(expected) },
            "{resource} {object}: {got}"
        );
    }
    for (name, allowed) in [("n1", true), ("n2", false)] {
        let old = on(name);
        let mut delete = create(&kubelet, "pods", Value::Null);
        (delete.operation, delete.object, delete.name) = (Operation::Delete, None, name);
        assert_eq!(admit(&mut delete, &store).is_ok(), allowed, "delete {name}");
        let mut status = create(&kubelet, "pods", old.clone());
        (status.operation, status.subresource, status.name) = (Operation::Update, "status", name);
        status.old = Some(&old);
        assert_eq!(admit(&mut status, &store).is_ok(), allowed, "status {name}");
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u"});
        let request = json!({"spec": {"boundObjectRef": reference}});
        let mut token = create(&kubelet, "pods", request);
        token.resource = Gvr { group: "", version: "v1", resource: "serviceaccounts" };
        token.subresource = "token";
        assert_eq!(admit(&mut token, &store).is_ok(), allowed, "token {name}");
    }
}

fn classes(store: &Store) {
    for class in [
        json!({"metadata": {"name": "plain"}, "handler": "runc"}),
        json!({"metadata": {"name": "heavy"}, "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "128Mi"}},
            "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [
                {"key": "kata", "operator": "Exists"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]}}),
    ] {
        put(store, "runtimeclasses.node.k8s.io", class);
    }
}

#[test]
fn a_pod_gets_overhead_selector_and_tolerations_of_its_runtime_class() {
    let (store, user) = (store(), User::admin());
    classes(&store);
    let spec = json!({"runtimeClassName": "heavy", "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]});
    let mut attempt = create(&user, "pods", pod(spec));
    admit(&mut attempt, &store).unwrap();
    let spec = attempt.object.clone().unwrap()["spec"].clone();
    assert_eq!(spec["overhead"], json!({"cpu": "250m", "memory": "128Mi"}));
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "kata": "yes"}));
    let for_five_minutes = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    assert_eq!(
        spec["tolerations"],
        json!([
            for_five_minutes("node.kubernetes.io/not-ready"),
            for_five_minutes("node.kubernetes.io/unreachable"),
            {"key": "kata", "operator": "Exists"},
        ]),
        "the pod's own toleration is part of the class's, and the class's shorter one part of the default"
    );
    admit(&mut attempt, &store).unwrap();
    assert_eq!(attempt.object.unwrap()["spec"], spec, "a second round changes nothing");
    let mut attempt = create(&user, "pods", pod(json!({"runtimeClassName": "plain"})));
    admit(&mut attempt, &store).unwrap();
    let spec = &attempt.object.as_ref().unwrap()["spec"];
    assert!(spec.get("overhead").is_none() && spec.get("nodeSelector").is_none(), "{spec}");
}

#[test]
fn pods_that_contradict_their_runtime_class_are_refused() {
    let (store, user) = (store(), User::admin());
    classes(&store);
    for (spec, expected) in [
        (
            json!({"runtimeClassName": "none"}),
            "pods \"p\" is forbidden: pod rejected: RuntimeClass \"none\" not found",
        ),
        (
            json!({"runtimeClassName": "heavy", "overhead": {"cpu": "1"}}),
            "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}),
            "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "heavy", "nodeSelector": {"kata": "no"}}),
            "pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
        ),
    ] {
        let status = admit(&mut create(&user, "pods", pod(spec)), &store).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (403, expected));
    }
    let same =
        json!({"runtimeClassName": "heavy", "overhead": {"cpu": "0.25", "memory": "134217728"}});
    admit(&mut create(&user, "pods", pod(same)), &store).unwrap();
    let mut update = create(&user, "pods", pod(json!({"runtimeClassName": "gone"})));
    update.operation = Operation::Update;
    assert!(admit(&mut update, &store).is_ok(), "a pod outlives its class");
}
