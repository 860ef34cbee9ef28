//! NUMA zones of pods that were promised their place.
#![allow(clippy::unwrap_used, reason = "a test")]

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::config;
use muster_scheduler_state::object::name;
use muster_scheduler_state::{Cluster, Kind, Object, Settings};
use serde_json::{Value, json};

/// Where a pod says its zone.
const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    begin.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// A node of two zones with four devices each, that keeps a pod to one of them.
fn cluster() -> Cluster {
    let shard = json!({"spec": {"plugins": {"numa": {"enabled": true}}}}).to_string();
    let mut settings = Settings::default();
    let params = settings.config.params.clone();
    settings.config = config::shard(&shard, &[]).unwrap();
    settings.config.params = params;
    let mut cluster = Cluster::new(settings);
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable":
        {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.put(Object::Node(serde_json::from_value(node).unwrap()));
    let zone = |name: &str| {
        json!({"name": name, "type": "Node", "resources": [
            {"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4", "available": "4"}]})
    };
    let zones = json!({"metadata": {"name": "n"},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"}],
        "zones": [zone("node-0"), zone("node-1")]});
    cluster.put(Object::NodeResourceTopology(serde_json::from_value(zones).unwrap()));
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    let queue = json!({"metadata": {"name": "q"}, "spec": {"resources": {"cpu": free, "memory": free, "gpu": free}}});
    cluster.put(Object::Queue(serde_json::from_value(queue).unwrap()));
    for (name, value) in [("low", 40), ("high", 70)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        cluster.put(Object::PriorityClass(serde_json::from_value(class).unwrap()));
    }
    cluster
}

/// The zone that an annotation names.
fn zone(mark: Option<&String>) -> String {
    let parts: Value = serde_json::from_str(mark.unwrap()).unwrap();
    parts[0]["zone"].as_str().unwrap().to_owned()
}

/// A pod of four devices, in a group of its own.
fn submit(cluster: &mut Cluster, pod: &str, priority: &str, node: &str) {
    submit_in(cluster, pod, priority, node, None);
}

/// The same on a node, with the zone that it has there.
fn submit_in(cluster: &mut Cluster, pod: &str, priority: &str, node: &str, zone: Option<&str>) {
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": pod, "namespace": "team", "uid": pod},
        "spec": {"queue": "q", "minMember": 1, "priorityClassName": priority}});
    cluster.put(Object::PodGroup(serde_json::from_value(group).unwrap()));
    let devices = json!({"nvidia.com/gpu": "4"});
    let mut annotations = json!({"pod-group-name": pod});
    if let Some(zone) = zone {
        annotations[PREDICTED] = json!([{"zone": zone, "amount": devices}]).to_string().into();
    }
    let pod = json!({"metadata": {"name": pod, "namespace": "team", "uid": format!("{pod}-uid"),
            "annotations": annotations},
        "spec": {"schedulerName": "muster-scheduler", "nodeName": node, "containers": [{"name": "c",
            "resources": {"requests": devices, "limits": devices}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}});
    cluster.put(Object::Pod(serde_json::from_value(pod).unwrap()));
}

#[test]
fn a_pod_that_was_promised_its_place_is_bound_with_the_zone_that_was_chosen_for_it() {
    let mut cluster = cluster();
    submit(&mut cluster, "free", "high", "");
    let bound = cluster.cycle(at(0)).binds;
    assert!(bound[0].annotations.contains_key(PREDICTED), "{bound:?}");
    cluster.remove(Kind::Pod, &name("team", "free"));
    for victim in ["one", "two"] {
        submit(&mut cluster, victim, "low", "n");
    }
    submit(&mut cluster, "urgent", "high", "");
    let evicted = cluster.cycle(at(1)).evictions;
    assert_eq!(evicted.len(), 1, "{evicted:?}");
    cluster.remove(Kind::Pod, &evicted[0].pod);
    let bound = cluster.cycle(at(2)).binds;
    assert_eq!(&*bound[0].pod.1, "urgent");
    assert!(bound[0].annotations.contains_key(PREDICTED), "{bound:?}");
}

#[test]
fn a_zone_is_taken_from_the_moment_a_pod_is_bound_to_it_before_the_watch_shows_it() {
    let mut cluster = cluster();
    submit(&mut cluster, "first", "high", "");
    let first = cluster.cycle(at(0)).binds;
    submit(&mut cluster, "second", "high", "");
    let second = cluster.cycle(at(1)).binds;
    let zones = [first, second].map(|bound| zone(bound[0].annotations.get(PREDICTED)));
    assert_eq!(zones, ["node-0", "node-1"]);
}

#[test]
fn a_zone_that_was_promised_is_nobody_elses_while_the_pod_that_has_it_leaves() {
    for [one, two] in [["node-0", "node-1"], ["node-1", "node-0"]] {
        let mut cluster = cluster();
        submit_in(&mut cluster, "one", "low", "n", Some(one));
        submit_in(&mut cluster, "two", "low", "n", Some(two));
        submit(&mut cluster, "urgent", "high", "");
        let evicted = cluster.cycle(at(1)).evictions;
        assert_eq!(evicted.len(), 1, "{evicted:?}");
        let leaving = evicted[0].pod.clone();
        let other = if &*leaving.1 == "one" { "two" } else { "one" };
        // The other one ends meanwhile: its zone is free at once, the promised one is not.
        cluster.remove(Kind::Pod, &name("team", other));
        submit(&mut cluster, "later", "low", "");
        let later = cluster.cycle(at(2)).binds;
        assert_eq!(&*later[0].pod.1, "later");
        cluster.remove(Kind::Pod, &leaving);
        let urgent = cluster.cycle(at(3)).binds;
        assert_eq!(&*urgent[0].pod.1, "urgent");
        let zones = [later, urgent].map(|bound| zone(bound[0].annotations.get(PREDICTED)));
        assert_ne!(zones[0], zones[1]);
    }
}
