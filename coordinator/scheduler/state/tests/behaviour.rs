//! What a cycle orders, and what comes of it, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "behaviour/set_aside.rs"]
mod set_aside;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler_state::object::name;
use muster_scheduler_state::{Cluster, Kind, Object, Outcome, Settings};
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    begin.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn put(cluster: &mut Cluster, kind: &str, object: Value) {
    cluster.put(match kind {
        "Node" => Object::Node(serde_json::from_value(object).unwrap()),
        "Queue" => Object::Queue(serde_json::from_value(object).unwrap()),
        "PodGroup" => Object::PodGroup(serde_json::from_value(object).unwrap()),
        _ => Object::Pod(serde_json::from_value(object).unwrap()),
    });
}

fn pod(pod: &str, group: &str, gpus: u32, node: &str) -> Value {
    let gpus = gpus.to_string();
    json!({"metadata": {"name": pod, "namespace": "team", "uid": format!("{pod}-uid"),
            "annotations": {"pod-group-name": group}},
        "spec": {"schedulerName": "muster-scheduler", "nodeName": node, "containers": [{"name": "c",
            "resources": {"requests": {"nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
}

fn group(group: &str, queue: &str, least: u32) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": group, "namespace": "team", "uid": group},
        "spec": {"queue": queue, "minMember": least}})
}

/// One node of eight, a queue that is due eight and one that is due nothing.
fn cluster() -> Cluster {
    cluster_of(Settings::default())
}

/// The same, by these settings.
fn cluster_of(settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(settings);
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable":
        {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    put(&mut cluster, "Node", node);
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    for (queue, quota) in [("due", 8), ("left-over", 0)] {
        let gpu = json!({"quota": quota, "overQuotaWeight": 1, "limit": -1});
        let queue = json!({"metadata": {"name": queue},
            "spec": {"resources": {"cpu": free, "memory": free, "gpu": gpu}}});
        put(&mut cluster, "Queue", queue);
    }
    cluster
}

#[test]
fn a_binding_without_an_answer_is_tried_again_and_its_place_is_nobody_elses() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("first", "due", 1));
    put(&mut cluster, "Pod", pod("first", "first", 8, ""));
    let cycle = cluster.cycle(at(0));
    assert_eq!(cycle.binds.len(), 1);
    let unsure = Outcome::Unsure("no answer".to_owned());
    assert_eq!(cluster.binding_result(&name("team", "first"), "first-uid", unsure, at(1)), None);
    put(&mut cluster, "PodGroup", group("second", "due", 1));
    put(&mut cluster, "Pod", pod("second", "second", 1, ""));
    assert!(cluster.cycle(at(2)).binds.is_empty(), "the node is full if the answer was lost");
    let again = cluster.due(at(3));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].attempt, 1);
}

#[test]
fn a_binding_that_is_refused_again_and_again_is_given_up_and_the_pod_rests() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("one", "due", 1));
    put(&mut cluster, "Pod", pod("one", "one", 8, ""));
    assert_eq!(cluster.cycle(at(0)).binds.len(), 1);
    let mut why = None;
    for seconds in 1..100 {
        why = cluster.binding_result(
            &name("team", "one"),
            "one-uid",
            Outcome::Failed("403".to_owned()),
            at(seconds),
        );
        if why.is_some() {
            break;
        }
        cluster.due(at(seconds + 30));
    }
    assert_eq!(why.as_deref(), Some("403"));
    assert!(cluster.cycle(at(7)).binds.is_empty(), "it rests");
    assert_eq!(cluster.cycle(at(60)).binds.len(), 1, "and is tried again after that");
}

#[test]
fn a_binding_that_was_refused_is_not_sent_again_to_a_node_that_has_vanished_meanwhile() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("one", "due", 1));
    put(&mut cluster, "Pod", pod("one", "one", 8, ""));
    let first = cluster.cycle(at(0)).binds;
    assert_eq!(first[0].node, "n");
    let refused = Outcome::Failed("429".to_owned());
    cluster.binding_result(&name("team", "one"), "one-uid", refused, at(0));
    let other = json!({"metadata": {"name": "other"}, "status": {"allocatable":
        {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"}}});
    put(&mut cluster, "Node", other);
    cluster.remove(Kind::Node, &name("", "n"));
    assert!(cluster.due(at(10)).is_empty());
    let again = cluster.cycle(at(10)).binds;
    assert_eq!(again.iter().map(|bind| bind.node.as_str()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn a_binding_with_a_conflict_is_tried_again_since_the_conflict_may_be_over() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("one", "due", 1));
    put(&mut cluster, "Pod", pod("one", "one", 8, ""));
    assert_eq!(cluster.cycle(at(0)).binds.len(), 1);
    let lost = Outcome::Lost("409".to_owned());
    assert_eq!(cluster.binding_result(&name("team", "one"), "one-uid", lost, at(1)), None);
    assert!(cluster.cycle(at(1)).binds.is_empty(), "its place is held");
    assert_eq!(cluster.due(at(2)).len(), 1);
    put(&mut cluster, "Pod", pod("one", "one", 8, "n"));
    assert!(cluster.due(at(100)).is_empty(), "the watch has the last word");
}

#[test]
fn room_that_is_made_for_a_gang_is_held_for_it_until_the_last_pod_has_left() {
    let mut cluster = cluster();
    for number in 0..2 {
        let name = format!("greedy-{number}");
        put(&mut cluster, "PodGroup", group(&name, "left-over", 1));
        put(&mut cluster, "Pod", pod(&name, &name, 4, "n"));
    }
    put(&mut cluster, "PodGroup", group("gang", "due", 2));
    put(&mut cluster, "Pod", pod("gang-0", "gang", 4, ""));
    put(&mut cluster, "Pod", pod("gang-1", "gang", 4, ""));
    let cycle = cluster.cycle(at(0));
    assert_eq!(cycle.evictions.len(), 2);
    assert!(cycle.evictions.iter().all(|one| one.why.beneficiary.as_deref() == Some("team/gang")));
    for one in &cycle.evictions {
        cluster.evicted(&one.pod, &one.uid, &Outcome::Done, at(1));
    }
    // One has left; somebody smaller comes along.
    cluster.remove(Kind::Pod, &name("team", "greedy-0"));
    put(&mut cluster, "PodGroup", group("small", "due", 1));
    put(&mut cluster, "Pod", pod("small", "small", 1, ""));
    assert!(cluster.cycle(at(2)).binds.is_empty());
    cluster.remove(Kind::Pod, &name("team", "greedy-1"));
    let bound: Vec<_> = cluster.cycle(at(3)).binds.into_iter().map(|bind| bind.pod.1).collect();
    assert_eq!(bound, ["gang-0".into(), "gang-1".into()]);
}

#[test]
fn a_pod_that_may_not_be_evicted_ends_the_promise() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("greedy", "left-over", 1));
    put(&mut cluster, "Pod", pod("greedy", "greedy", 8, "n"));
    put(&mut cluster, "PodGroup", group("gang", "due", 1));
    put(&mut cluster, "Pod", pod("gang", "gang", 8, ""));
    let cycle = cluster.cycle(at(0));
    assert_eq!(cluster.nominations().len(), 1);
    let refused = Outcome::Failed("a disruption budget says no".to_owned());
    cluster.evicted(&cycle.evictions[0].pod, &cycle.evictions[0].uid, &refused, at(1));
    assert!(cluster.nominations().is_empty());
}

#[test]
fn a_pod_that_cannot_be_told_its_device_waits_and_says_why() {
    let mut cluster = cluster();
    put(&mut cluster, "PodGroup", group("part", "due", 1));
    let mut shared = pod("part", "part", 0, "");
    shared["metadata"]["annotations"]["gpu-fraction"] = "0.5".into();
    shared["spec"]["containers"][0]["resources"] = json!({});
    put(&mut cluster, "Pod", shared);
    let cycle = cluster.cycle(at(0));
    assert!(cycle.binds.is_empty());
    let why = &cycle.decisions.reasons["team/part"];
    assert!(why.message.contains("webhook-scheduler.yaml"), "{}", why.message);
}
