//! Addresses of Services.

use serde_json::json;

use super::*;

fn mk_service(spec: Value) -> Value {
    let mut service = json!({
        "metadata": {"name": "s", "namespace": "n", "uid": "s-uid", "labels": {"app": "x"}},
        "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "x"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn mk_pod(i: usize, ready: bool, change: impl FnOnce(&mut Value)) -> Arc<Value> {
    let value = if ready { "True" } else { "False" };
    let mut pod = json!({
        "metadata": {"name": format!("p{i}"), "namespace": "n", "uid": format!("u{i:04}")},
        "spec": {"nodeName": "node", "containers": [
            {"name": "c", "ports": [{"name": "web", "containerPort": 9090, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": format!("10.1.{}.{}", i / 250, i % 250)}],
            "conditions": [{"type": "Ready", "status": value}]},
    });
    change(&mut pod);
    Arc::new(pod)
}

fn one(service: &Value, pods: &[Arc<Value>]) -> Value {
    match slices(service, pods, &HashMap::new(), &[]).as_slice() {
        [SliceChange::Create(slice)] => slice.clone(),
        other => panic!("{other:?}"),
    }
}

fn stored(changes: Vec<SliceChange>) -> Vec<Arc<Value>> {
    let made = changes.into_iter().enumerate().map(|(i, change)| match change {
        SliceChange::Create(mut slice) | SliceChange::Update(mut slice) => {
            slice["metadata"]["name"] = format!("s-{i}").into();
            Arc::new(slice)
        }
        SliceChange::Delete(slice) => panic!("{slice}"),
    });
    made.collect()
}

#[test]
fn a_slice_has_the_names_labels_and_owner_of_the_original() {
    let slice = one(&mk_service(json!({})), &[mk_pod(1, true, |_| {})]);
    assert_eq!(slice["metadata"]["generateName"], "s-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"app": "x", "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "s-uid");
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(
        slice["endpoints"][0],
        json!({"addresses": ["10.1.0.1"], "nodeName": "node",
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "targetRef": {"kind": "Pod", "namespace": "n", "name": "p1", "uid": "u0001"}})
    );
}

#[test]
fn conditions_follow_readiness_deletion_and_what_the_service_publishes() {
    let going = |p: &mut Value| p["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for (publish, ready, leaving, wanted) in [
        (false, true, false, (true, true, false)),
        (false, false, false, (false, false, false)),
        (true, false, false, (true, false, false)),
        (false, true, true, (false, true, true)),
        (true, true, true, (true, true, true)),
    ] {
        let pod = mk_pod(1, ready, |p| {
            if leaving {
                going(p)
            }
        });
        let slice = one(&mk_service(json!({"publishNotReadyAddresses": publish})), &[pod]);
        let (ready, serving, terminating) = wanted;
        assert_eq!(
            slice["endpoints"][0]["conditions"],
            json!({"ready": ready, "serving": serving, "terminating": terminating})
        );
    }
}

#[test]
fn a_pod_of_the_subdomain_has_its_hostname_and_others_have_none() {
    for (subdomain, wanted) in [("s", json!("h")), ("other", Value::Null)] {
        let pod = mk_pod(1, true, |p| {
            p["spec"]["hostname"] = "h".into();
            p["spec"]["subdomain"] = subdomain.into();
        });
        let headless = mk_service(json!({"clusterIP": "None", "ports": []}));
        let slice = one(&headless, &[pod]);
        assert_eq!(slice["endpoints"][0]["hostname"], wanted);
        assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
        assert_eq!(slice["ports"], json!([]));
    }
}

#[test]
fn a_named_target_port_is_looked_up_in_the_pod() {
    let service = mk_service(json!({"ports": [{"port": 80, "targetPort": "web"}]}));
    assert_eq!(one(&service, &[mk_pod(1, true, |_| {})])["ports"][0]["port"], 9090);
}

#[test]
fn ended_pods_and_pods_without_address_are_left_out() {
    let ended = mk_pod(1, false, |p| p["status"]["phase"] = "Succeeded".into());
    let unborn = mk_pod(2, false, |p| p["status"]["podIPs"] = json!([]));
    let slice = one(&mk_service(json!({})), &[ended, unborn]);
    assert_eq!(slice["endpoints"], json!([]), "one empty slice stands for the service");
}

#[test]
fn a_hundred_endpoints_fill_a_slice_and_a_settled_service_changes_nothing() {
    let service = mk_service(json!({}));
    let pods: Vec<_> = (0..250).map(|i| mk_pod(i, true, |_| {})).collect();
    let existing = stored(slices(&service, &pods, &HashMap::new(), &[]));
    let sizes: Vec<usize> = existing.iter().map(|s| json::list(s, "/endpoints").len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(slices(&service, &pods, &HashMap::new(), &existing), []);
    // One pod less changes one slice, and a new one goes where there is room.
    let mut fewer = pods;
    fewer.remove(0);
    let changes = slices(&service, &fewer, &HashMap::new(), &existing);
    assert!(matches!(changes.as_slice(), [SliceChange::Update(_)]));
}

#[test]
fn slices_that_are_no_longer_needed_go() {
    let service = mk_service(json!({}));
    let pods: Vec<_> = (0..150).map(|i| mk_pod(i, true, |_| {})).collect();
    let existing = stored(slices(&service, &pods, &HashMap::new(), &[]));
    let changes = slices(&service, &[], &HashMap::new(), &existing);
    assert!(
        matches!(changes.as_slice(), [SliceChange::Update(_), SliceChange::Delete(_)]),
        "{changes:?}"
    );
}

#[test]
fn endpoints_list_ready_and_waiting_addresses_apart() {
    let service = mk_service(json!({}));
    let pods = [mk_pod(1, true, |_| {}), mk_pod(2, false, |_| {})];
    let Some(SliceChange::Create(made)) = endpoints_change(&service, &pods, None) else { panic!() };
    assert_eq!(made["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
    assert_eq!(made["subsets"][0]["notReadyAddresses"][0]["ip"], "10.1.0.2");
    assert_eq!(made["subsets"][0]["ports"][0]["port"], 8080);
    assert_eq!(endpoints_change(&service, &pods, Some(&made)), None);
}
