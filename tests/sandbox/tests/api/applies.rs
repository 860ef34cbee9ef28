//! Server-side apply over HTTP: doing it twice is doing it once, and disjoint managers do not care who is first.

use std::collections::BTreeMap;

use http::Method;
use muster_sandbox::Sandbox;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::caller::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps/x";
const SERVICES: &str = "/api/v1/namespaces/default/services/x";

fn words(prefix: &'static str) -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map((0..6_u8).prop_map(move |n| format!("{prefix}{n}")), "[a-z0-9]{1,5}", 0..5)
}

/// An empty map is a value of its own, for which two managers do conflict, upstream too.
fn without_empty(mut config: Value) -> Value {
    let empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    for part in ["metadata", "spec"] {
        if let Some(map) = config[part].as_object_mut() {
            map.retain(|_, value| !empty(value));
        }
    }
    config.as_object_mut().unwrap().retain(|_, value| !empty(value) && !value.is_null());
    config
}

fn map_config(prefix: &'static str) -> impl Strategy<Value = Value> {
    (words(prefix), words(prefix), words(prefix)).prop_map(|(data, labels, annotations)| {
        without_empty(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "labels": labels, "annotations": annotations}, "data": data}))
    })
}

/// A Service; its ports are those from `first` on that `wanted` says.
fn service_config(prefix: &'static str, first: u16) -> impl Strategy<Value = Value> {
    (words(prefix), words(prefix), vec(any::<bool>(), 5), any::<bool>()).prop_map(
        move |(labels, selector, wanted, udp)| {
            let protocol = if udp { "UDP" } else { "TCP" };
            let ports: Vec<Value> = (first..)
                .zip(wanted)
                .enumerate()
                .filter(|(i, (_, wanted))| *i == 0 || *wanted)
                .map(|(_, (n, _))| {
                    json!({"name": format!("{}{n}", protocol.to_lowercase()), "port": n, "protocol": protocol})
                })
                .collect();
            without_empty(json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "x", "labels": labels},
                "spec": {"selector": selector, "ports": ports}}))
        },
    )
}

async fn send(sandbox: &Sandbox, path: &str, manager: &str, config: &Value) -> Answer {
    let path = format!("{path}?fieldManager={manager}");
    http(sandbox, Method::PATCH, &path, APPLY, config.to_string()).await
}

async fn twice_is_once(path: &'static str, earlier: Value, config: Value) {
    let sandbox = bare().await;
    // Somebody else's fields and an earlier state of ours are in the way.
    send(&sandbox, path, "other", &earlier).await.expect(201);
    let forced = format!("{path}?fieldManager=me&force=true");
    let once = http(&sandbox, Method::PATCH, &forced, APPLY, config.to_string()).await.expect(200);
    let before = sandbox.api().store.revision();
    let again = http(&sandbox, Method::PATCH, &forced, APPLY, config.to_string()).await.expect(200);
    assert_eq!(once, again);
    let unforced = send(&sandbox, path, "me", &config).await.expect(200);
    assert_eq!(once, unforced, "what one owns needs no force");
    assert_eq!(sandbox.api().store.revision(), before, "an apply that changes nothing wrote");
}

#[test]
fn an_apply_sent_twice_changes_nothing_and_emits_nothing() {
    law(24, (map_config("a"), map_config("a")), |(earlier, config)| {
        twice_is_once(MAPS, earlier, config)
    });
    law(24, (service_config("a", 80), service_config("a", 81)), |(earlier, config)| {
        twice_is_once(SERVICES, earlier, config)
    });
}

/// The object without what the order of writes may show: times, revision, identity, order of ports.
fn essence(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
        metadata.remove(field);
    }
    let managed = metadata["managedFields"].as_array_mut().unwrap();
    for entry in managed.iter_mut() {
        entry.as_object_mut().unwrap().remove("time");
    }
    managed.sort_by_key(ToString::to_string);
    if let Some(ports) = object["spec"]["ports"].as_array_mut() {
        ports.sort_by_key(ToString::to_string);
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object
}

async fn any_order(path: &'static str, a: Value, b: Value) {
    let mut ends = Vec::new();
    for order in [[("a", &a), ("b", &b)], [("b", &b), ("a", &a)]] {
        let sandbox = bare().await;
        send(&sandbox, path, order[0].0, order[0].1).await.expect(201);
        send(&sandbox, path, order[1].0, order[1].1).await.expect(200);
        ends.push(essence(get(&sandbox, path).await.expect(200)));
    }
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn disjoint_managers_commute() {
    law(24, (map_config("a"), map_config("b")), |(a, b)| any_order(MAPS, a, b));
    // A Service's selector is atomic: only one of the two sets it.
    law(24, (service_config("a", 80), service_config("b", 90)), |(a, mut b)| {
        b["spec"].as_object_mut().unwrap().remove("selector");
        any_order(SERVICES, a, b)
    });
}

#[tokio::test]
async fn a_lease_is_won_once_and_the_second_candidate_gets_409() {
    let sandbox = bare().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader";
    let lease = |holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})
    };
    let tries = ["a", "b", "c", "d", "e", "f"].map(|name| {
        let (sandbox, lease) = (&sandbox, lease(name));
        async move { (name, send(sandbox, path, name, &lease).await) }
    });
    let (won, lost): (Vec<_>, Vec<_>) =
        futures::future::join_all(tries).await.into_iter().partition(|(_, a)| a.code < 300);
    assert_eq!(won.len(), 1);
    for (name, answer) in lost {
        let status = answer.expect(409);
        assert_eq!(status["reason"], "Conflict", "{name}");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert_eq!(causes[0]["reason"], "FieldManagerConflict", "{status}");
        assert_eq!(causes[0]["field"], ".spec.holderIdentity");
    }
    // The winner renews without force, and gives up by applying no holder; then another one may.
    let winner = won[0].0;
    send(&sandbox, path, winner, &lease(winner)).await.expect(200);
    let mut empty = lease(winner);
    empty["spec"].as_object_mut().unwrap().remove("holderIdentity");
    send(&sandbox, path, winner, &empty).await.expect(200);
    let held = send(&sandbox, path, "next", &lease("next")).await.expect(200);
    assert_eq!(held["spec"]["holderIdentity"], "next");
}
