//! Limits and quotas of queues from the moment when a place is promised to the moment when it is taken.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use jiff::{SignedDuration, Timestamp};
use muster_scheduler_state::object::name;
use muster_scheduler_state::{Cluster, Kind, Object, Outcome, Settings};
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    begin.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn node(cluster: &mut Cluster, name: &str) {
    let node = json!({"metadata": {"name": name}, "status": {"allocatable":
        {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.put(Object::Node(serde_json::from_value(node).unwrap()));
}

fn queue(cluster: &mut Cluster, name: &str, parent: &str, quota: i32, limit: i32) {
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    let gpu = json!({"quota": quota, "overQuotaWeight": 1, "limit": limit});
    let queue = json!({"metadata": {"name": name}, "spec": {"parentQueue": parent,
        "resources": {"cpu": free, "memory": free, "gpu": gpu}}});
    cluster.put(Object::Queue(serde_json::from_value(queue).unwrap()));
}

/// A group of one pod, with as many devices.
fn job(cluster: &mut Cluster, job: &str, queue: &str, priority: &str, gpus: u32, node: &str) {
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": job, "namespace": "team", "uid": job},
        "spec": {"queue": queue, "minMember": 1, "priorityClassName": priority}});
    cluster.put(Object::PodGroup(serde_json::from_value(group).unwrap()));
    cluster.put(pod(job, gpus, node));
}

fn pod(job: &str, gpus: u32, node: &str) -> Object {
    let gpus = gpus.to_string();
    let pod: Value = json!({"metadata": {"name": job, "namespace": "team", "uid": format!("{job}-uid"),
            "annotations": {"pod-group-name": job}},
        "spec": {"schedulerName": "muster-scheduler", "nodeName": node, "containers": [{"name": "c",
            "resources": {"requests": {"nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}});
    Object::Pod(serde_json::from_value(pod).unwrap())
}

/// Three nodes of eight, a queue of limit 8 with two below it that each own four, and two priorities.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(Settings::default());
    for number in 0..3 {
        node(&mut cluster, &format!("n{number}"));
    }
    queue(&mut cluster, "all", "", 8, 8);
    queue(&mut cluster, "left", "all", 4, -1);
    queue(&mut cluster, "right", "all", 4, -1);
    for (name, value) in [("low", 40), ("high", 70)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        cluster.put(Object::PriorityClass(serde_json::from_value(class).unwrap()));
    }
    cluster
}

/// Pods that have a node and are to stay.
fn staying(cluster: &Cluster) -> usize {
    let stays = |pod: &&muster_scheduler::input::Pod| {
        !pod.spec.node_name.is_empty() && pod.metadata.deletion_timestamp.is_none()
    };
    cluster.input().pods.iter().filter(stays).count()
}

/// Cycles until nothing is ordered any more; evictions are confirmed at once, and pods go one cycle later. The most
/// pods that had a place at any time.
fn settle(cluster: &mut Cluster) -> usize {
    let (mut most, mut leaving) = (0, Vec::new());
    for second in 0..60 {
        let cycle = cluster.cycle(at(second));
        for bind in &cycle.binds {
            cluster.put(pod(&bind.pod.1, 1, &bind.node));
        }
        most = most.max(staying(cluster));
        for gone in std::mem::take(&mut leaving) {
            cluster.remove(Kind::Pod, &gone);
        }
        for one in &cycle.evictions {
            cluster.evicted(&one.pod, &one.uid, &Outcome::Done, at(second));
            leaving.push(one.pod.clone());
        }
        if cycle.binds.is_empty() && cycle.evictions.is_empty() && cluster.nominations().is_empty()
        {
            break;
        }
    }
    most
}

#[test]
fn reclaim_below_a_queue_with_a_limit_leaves_it_at_its_limit() {
    let mut cluster = cluster();
    for number in 0..10 {
        job(&mut cluster, &format!("left-{number}"), "left", "low", 1, "");
    }
    assert_eq!(settle(&mut cluster), 8);
    for number in 0..10 {
        job(&mut cluster, &format!("right-{number}"), "right", "low", 1, "");
    }
    assert_eq!(settle(&mut cluster), 8);
    let has = |queue: &str| {
        let of = |pod: &&muster_scheduler::input::Pod| {
            pod.metadata.name.starts_with(queue) && !pod.spec.node_name.is_empty()
        };
        cluster.input().pods.iter().filter(of).count()
    };
    assert_eq!((has("left"), has("right")), (4, 4));
}

#[test]
fn preemption_in_a_queue_with_a_limit_leaves_it_at_its_limit() {
    let mut cluster = cluster();
    queue(&mut cluster, "one", "", 8, 8);
    for number in 0..10 {
        job(&mut cluster, &format!("low-{number}"), "one", "low", 1, "");
    }
    assert_eq!(settle(&mut cluster), 8);
    for number in 0..10 {
        job(&mut cluster, &format!("high-{number}"), "one", "high", 1, "");
    }
    assert_eq!(settle(&mut cluster), 8);
}

/// Eight run in a queue of limit 8, and one is promised a place; all nodes but one are full with others'.
fn promised(cluster: &mut Cluster) {
    queue(cluster, "one", "", 8, 8);
    for number in 0..8 {
        job(cluster, &format!("low-{number}"), "one", "low", 1, "n0");
    }
    job(cluster, "high", "one", "high", 1, "");
    let cycle = cluster.cycle(at(0));
    assert_eq!(cycle.evictions.len(), 1);
    assert_eq!(cluster.nominations().len(), 1);
    let gone = &cycle.evictions[0];
    cluster.evicted(&gone.pod, &gone.uid, &Outcome::Done, at(1));
    cluster.remove(Kind::Pod, &gone.pod);
}

#[test]
fn a_promise_is_kept_while_its_queue_has_room() {
    let mut cluster = cluster();
    promised(&mut cluster);
    let bound: Vec<_> = cluster.cycle(at(2)).binds.into_iter().map(|bind| bind.pod.1).collect();
    assert_eq!(bound, ["high".into()]);
}

#[test]
fn a_promise_falls_if_its_queue_has_no_room_any_more_when_it_is_due() {
    let mut cluster = cluster();
    promised(&mut cluster);
    queue(&mut cluster, "one", "", 7, 7);
    let cycle = cluster.cycle(at(2));
    assert!(cycle.binds.is_empty(), "seven run, and seven is the limit now");
    assert!(cluster.in_flight().is_empty());
}

#[test]
fn a_promise_falls_if_a_queue_above_has_no_room_any_more_when_it_is_due() {
    let mut cluster = cluster();
    promised(&mut cluster);
    queue(&mut cluster, "above", "", 7, 7);
    queue(&mut cluster, "one", "above", 8, 8);
    assert!(cluster.cycle(at(2)).binds.is_empty());
    assert!(cluster.in_flight().is_empty());
}

#[test]
fn what_an_eviction_frees_in_a_queue_is_nobodys_until_it_is_confirmed() {
    let mut cluster = cluster();
    queue(&mut cluster, "one", "", 8, 8);
    // One that asks for little takes the place of one that has much.
    job(&mut cluster, "large", "one", "low", 8, "n0");
    job(&mut cluster, "high", "one", "high", 2, "");
    let cycle = cluster.cycle(at(0));
    assert_eq!(cycle.evictions.len(), 1);
    job(&mut cluster, "small", "one", "low", 1, "");
    assert!(cluster.cycle(at(1)).binds.is_empty(), "the eviction may be refused");
    cluster.evicted(&name("team", "large"), "large-uid", &Outcome::Done, at(2));
    let bound: Vec<_> = cluster.cycle(at(3)).binds.into_iter().map(|bind| bind.pod.1).collect();
    assert_eq!(bound, ["small".into()]);
}

/// A pod that is given a node and then hears that it cannot be placed would be Running and unscheduled for ever.
#[test]
fn pods_that_are_on_their_way_to_a_node_are_not_told_what_keeps_the_others_of_their_group() {
    let mut cluster = cluster();
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": "gang", "namespace": "team", "uid": "gang"},
        "spec": {"queue": "left", "minMember": 1, "priorityClassName": "low"}});
    cluster.put(Object::PodGroup(serde_json::from_value(group).unwrap()));
    for number in 0..10 {
        let Object::Pod(mut one) = pod(&format!("gang-{number}"), 1, "") else { panic!("no pod") };
        one.metadata.annotations.insert("pod-group-name".to_owned(), "gang".to_owned());
        cluster.put(Object::Pod(one));
    }
    let cycle = cluster.cycle(at(0));
    let bound: Vec<_> = cycle.binds.iter().map(|bind| bind.pod.clone()).collect();
    let groups = muster_scheduler_state::status::groups(&cluster, &cycle.decisions);
    let status = &groups[&name("team", "gang")];
    assert_eq!(
        (bound.len(), status.reason.as_ref().map(|(reason, _)| reason.as_str())),
        (8, Some("OverLimit"))
    );
    assert_eq!((status.waiting.len(), status.under_way, status.placed), (2, 8, 0));
    assert!(status.waiting.iter().all(|waits| !bound.contains(waits)), "{:?}", status.waiting);
}
