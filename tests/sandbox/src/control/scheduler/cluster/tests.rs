//! Where pods go and why they do not.

use serde_json::json;

use super::*;

fn mk_node(name: &str, change: impl FnOnce(&mut Value)) -> Arc<Value> {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    change(&mut node);
    Arc::new(node)
}

fn mk_pod(name: &str, requests: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn cluster(nodes: &[Arc<Value>]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.node_changed(None, Some(node));
    }
    cluster
}

fn choose(cluster: &mut Cluster, pod: &Value) -> Result<String, String> {
    let load = cluster.load(pod);
    cluster.choose(pod, &load).map_err(|NoFit(why)| why)
}

fn schedule(cluster: &mut Cluster, pod: &Value) -> Result<String, String> {
    let load = cluster.load(pod);
    let node = cluster.choose(pod, &load).map_err(|NoFit(why)| why)?;
    cluster.place(meta::uid(pod), &node, load);
    Ok(node)
}

#[test]
fn pods_spread_to_the_emptiest_node_and_ties_go_by_name() {
    let mut cluster = cluster(&[mk_node("b", |_| {}), mk_node("a", |_| {})]);
    let pods: Vec<Value> =
        (0..4).map(|i| mk_pod(&format!("p{i}"), json!({"cpu": "1"}), json!({}))).collect();
    let places: Vec<String> = pods.iter().map(|pod| schedule(&mut cluster, pod).unwrap()).collect();
    assert_eq!(places, ["a", "b", "a", "b"]);
}

#[test]
fn a_node_is_full_when_any_resource_or_the_pod_count_is() {
    for (allocatable, requests, reason) in [
        (
            json!({"cpu": "1", "memory": "1Gi", "pods": "9"}),
            json!({"cpu": "1001m"}),
            "Insufficient cpu",
        ),
        (
            json!({"cpu": "1", "memory": "1Gi", "pods": "9"}),
            json!({"memory": "2Gi"}),
            "Insufficient memory",
        ),
        (
            json!({"cpu": "1", "memory": "1Gi", "pods": "9"}),
            json!({"huawei.com/Ascend910": "1"}),
            "Insufficient huawei.com/Ascend910",
        ),
        (json!({"cpu": "1", "memory": "1Gi", "pods": "0"}), json!({}), "Too many pods"),
    ] {
        let node = mk_node("a", |n| n["status"]["allocatable"] = allocatable.clone());
        let mut cluster = cluster(&[node]);
        let why = choose(&mut cluster, &mk_pod("p", requests, json!({}))).unwrap_err();
        assert_eq!(
            why,
            format!(
                "0/1 nodes are available: 1 {reason}. preemption: 0/1 nodes are \
            available: 1 No preemption victims found for incoming pod."
            )
        );
    }
}

#[test]
fn reasons_are_counted_and_sorted() {
    let tainted = mk_node("t", |n| {
        n["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    });
    let mut cluster = cluster(&[
        mk_node("a", |n| n["status"]["allocatable"]["cpu"] = "500m".into()),
        mk_node("b", |n| n["status"]["allocatable"]["cpu"] = "500m".into()),
        tainted,
    ]);
    assert_eq!(
        choose(&mut cluster, &mk_pod("p", json!({"cpu": "1"}), json!({}))).unwrap_err(),
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. \
         preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
         2 No preemption victims found for incoming pod."
    );
}

#[test]
fn without_nodes_it_says_so() {
    let why = choose(&mut cluster(&[]), &mk_pod("p", json!({}), json!({}))).unwrap_err();
    assert_eq!(why, "no nodes available to schedule pods");
}

#[test]
fn selectors_affinity_taints_and_cordons_keep_pods_away() {
    let affinity = |expressions: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}})
    };
    let node = || mk_node("a", |n| n["metadata"]["labels"] = json!({"zone": "x", "size": "5"}));
    let expression = |key: &str, operator: &str, values: Value| {
        affinity(json!([{"key": key, "operator": operator, "values": values}]))
    };
    for (spec, fits) in [
        (json!({"nodeSelector": {"zone": "x"}}), true),
        (json!({"nodeSelector": {"zone": "y"}}), false),
        (expression("zone", "In", json!(["x", "y"])), true),
        (expression("zone", "NotIn", json!(["x"])), false),
        (expression("rack", "NotIn", json!(["x"])), true),
        (expression("zone", "Exists", json!([])), true),
        (expression("zone", "DoesNotExist", json!([])), false),
        (expression("size", "Gt", json!(["4"])), true),
        (expression("size", "Lt", json!(["4"])), false),
        (affinity(json!([])), false),
    ] {
        let mut cluster = cluster(&[node()]);
        let outcome = choose(&mut cluster, &mk_pod("p", json!({}), spec.clone()));
        assert_eq!(outcome.is_ok(), fits, "{spec}");
    }
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    for (tolerations, fits) in [
        (json!([]), false),
        (json!([{"key": "k", "operator": "Equal", "value": "v"}]), true),
        (json!([{"key": "k", "value": "w"}]), false),
        (json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), false),
        (json!([{"operator": "Exists"}]), true),
    ] {
        let mut cluster = cluster(&[mk_node("a", |n| n["spec"]["taints"] = taint.clone())]);
        let pod = mk_pod("p", json!({}), json!({"tolerations": tolerations}));
        assert_eq!(choose(&mut cluster, &pod).is_ok(), fits, "{tolerations}");
    }
    let mut cordoned = cluster(&[mk_node("a", |n| n["spec"]["unschedulable"] = true.into())]);
    let why = choose(&mut cordoned, &mk_pod("p", json!({}), json!({}))).unwrap_err();
    assert!(why.contains("1 node(s) were unschedulable."), "{why}");
}

#[test]
fn room_comes_back_when_a_pod_ends_or_goes() {
    let node = mk_node("a", |n| n["status"]["allocatable"]["cpu"] = "1".into());
    let mut cluster = cluster(&[node]);
    let mut first = mk_pod("first", json!({"cpu": "1"}), json!({"nodeName": "a"}));
    cluster.pod_changed(None, Some(&Arc::new(first.clone())));
    let second = mk_pod("second", json!({"cpu": "1"}), json!({}));
    assert!(choose(&mut cluster, &second).is_err());
    first["status"] = json!({"phase": "Succeeded"});
    assert!(cluster.pod_changed(None, Some(&Arc::new(first))));
    assert_eq!(choose(&mut cluster, &second).as_deref(), Ok("a"));
}

#[test]
fn a_pod_seen_before_its_node_takes_room_there() {
    let mut cluster = Cluster::default();
    let bound = mk_pod("first", json!({"cpu": "4"}), json!({"nodeName": "a"}));
    cluster.pod_changed(None, Some(&Arc::new(bound)));
    cluster.node_changed(None, Some(&mk_node("a", |_| {})));
    assert!(choose(&mut cluster, &mk_pod("p", json!({"cpu": "1"}), json!({}))).is_err());
}

#[test]
fn an_assumed_place_is_kept_until_the_binding_is_seen_and_not_counted_twice() {
    let mut cluster = cluster(&[mk_node("a", |n| n["status"]["allocatable"]["cpu"] = "2".into())]);
    let pod = mk_pod("p", json!({"cpu": "1"}), json!({}));
    schedule(&mut cluster, &pod).unwrap();
    cluster.pod_changed(None, Some(&Arc::new(pod)));
    let bound = mk_pod("p", json!({"cpu": "1"}), json!({"nodeName": "a"}));
    cluster.pod_changed(None, Some(&Arc::new(bound)));
    let second = mk_pod("q", json!({"cpu": "1"}), json!({}));
    assert!(schedule(&mut cluster, &second).is_ok());
    assert!(choose(&mut cluster, &mk_pod("r", json!({"cpu": "1"}), json!({}))).is_err());
}

#[test]
fn requests_are_those_of_the_containers_or_of_the_greatest_init_container() {
    let mut cluster = cluster(&[mk_node("a", |_| {})]);
    let pod = json!({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "overhead": {"cpu": "100m"},
            "initContainers": [
                {"resources": {"requests": {"cpu": "3"}}},
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            ],
            "containers": [
                {"resources": {"requests": {"cpu": "1"}}},
                {"resources": {"limits": {"cpu": "1"}}},
            ],
        },
    });
    // Containers and sidecar: 2.5; init: 3; the greater, plus overhead.
    assert_eq!(cluster.load(&pod).requests.get(CPU), 3100);
}

#[test]
fn a_heartbeat_is_no_reason_to_try_again() {
    let mut cluster = Cluster::default();
    let node = mk_node("a", |_| {});
    assert!(cluster.node_changed(None, Some(&node)));
    let beat = mk_node("a", |n| n["status"]["conditions"] = json!([{"type": "Ready"}]));
    assert!(!cluster.node_changed(Some(&node), Some(&beat)));
}
