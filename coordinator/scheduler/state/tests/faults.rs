//! What becomes of gangs that stand on something bad, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Dialect, Inventory};
use muster_scheduler_state::fault::{ACTION, Bad, Care, Policy};
use muster_scheduler_state::object::name;
use muster_scheduler_state::{Cluster, Cycle, Kind, Object, Outcome, Settings};
use serde_json::{Value, json};

const GPU: &str = "nvidia.com/gpu";

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    begin.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn node(name: &str, ready: bool) -> Object {
    let ready = if ready { "True" } else { "Unknown" };
    let node = json!({"metadata": {"name": name}, "status": {"allocatable":
        {GPU: "8", "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": ready}]}});
    Object::Node(serde_json::from_value(node).unwrap())
}

fn queue(name: &str, parent: &str, annotations: Value) -> Object {
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    let queue = json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"parentQueue": parent, "resources": {"cpu": free, "memory": free, "gpu": free}}});
    Object::Queue(serde_json::from_value(queue).unwrap())
}

fn group(annotations: Value) -> Object {
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": "gang", "namespace": "team", "uid": "gang", "annotations": annotations},
        "spec": {"queue": "q", "minMember": 2}});
    Object::PodGroup(serde_json::from_value(group).unwrap())
}

fn pod(pod: &str, node: &str, made: i64) -> Object {
    let pod = json!({"metadata": {"name": pod, "namespace": "team", "uid": format!("{pod}-{made}"),
            "creationTimestamp": at(made), "annotations": {"pod-group-name": "gang"}},
        "spec": {"schedulerName": "muster-scheduler", "nodeName": node, "containers": [{"name": "c",
            "resources": {"requests": {GPU: "8"}, "limits": {GPU: "8"}}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}});
    Object::Pod(serde_json::from_value(pod).unwrap())
}

/// Three nodes, a gang on two of them.
fn cluster(policy: Value) -> Cluster {
    let care = Care {
        policy: Policy::None,
        grace: SignedDuration::from_secs(10),
        node_grace: SignedDuration::from_secs(60),
        cool_down: SignedDuration::from_secs(300),
    };
    let mut cluster = Cluster::new(Settings { faults: care, ..Settings::default() });
    for name in ["a", "b", "c"] {
        cluster.put(node(name, true));
    }
    cluster.put(queue("q", "", json!({})));
    cluster.put(group(policy));
    cluster.put(pod("gang-0", "a", 0));
    cluster.put(pod("gang-1", "b", 0));
    cluster
}

fn says(policy: &str) -> Value {
    json!({"muster.dev/fault-policy": policy})
}

/// A device of node `a` goes bad, or is well again.
fn strike(cluster: &mut Cluster, pod: Option<&str>) {
    let fault = pod.map(|_| "lost".to_owned());
    let inventory = json!({"node": "a", "devices": [{"id": 3, "resource": GPU, "fault": fault}]});
    cluster.put_inventory(serde_json::from_value::<Inventory>(inventory).unwrap());
    let hit = pod.map(|uid| (uid.to_owned(), format!("device 3 of {GPU}: lost")));
    cluster.hold("a", hit.into_iter().collect::<BTreeMap<_, _>>());
}

fn gone(cycle: &Cycle) -> Vec<String> {
    let faults = cycle.evictions.iter().filter(|one| one.why.action == ACTION);
    let mut pods: Vec<String> = faults.map(|one| one.pod.1.to_string()).collect();
    pods.sort();
    pods
}

fn noted(cluster: &mut Cluster, cycle: &Cycle, now: Timestamp) {
    for note in &cycle.notes {
        cluster.noted(&note.group, note.restart.at, &Outcome::Done, now);
    }
}

#[test]
fn by_policy_none_it_is_said_and_nothing_is_done() {
    let mut cluster = cluster(json!({}));
    strike(&mut cluster, Some("gang-0-0"));
    for seconds in 1..100 {
        let cycle = cluster.cycle(at(seconds * 10));
        assert!(cycle.notes.is_empty() && gone(&cycle).is_empty());
    }
    let trouble = cluster.faults().trouble(&(Dialect::Kai, name("team", "gang"))).unwrap();
    assert_eq!(trouble.bad, Bad::DeviceFaulty);
    assert_eq!(
        trouble.message,
        "pod gang-0: device 3 of nvidia.com/gpu: lost (node a). the fault policy is none: nothing is done"
    );
    assert_eq!(cluster.faults().faulted(), 1);
    strike(&mut cluster, None);
    cluster.cycle(at(2000));
    assert!(cluster.faults().trouble(&(Dialect::Kai, name("team", "gang"))).is_none());
}

#[test]
fn by_policy_evict_the_pod_goes_when_the_fault_has_lasted_and_the_restart_is_written() {
    let mut cluster = cluster(says("evict"));
    strike(&mut cluster, Some("gang-0-0"));
    assert!(cluster.cycle(at(100)).notes.is_empty(), "it may be over in a moment");
    let cycle = cluster.cycle(at(110));
    assert_eq!(cycle.notes.len(), 1);
    assert_eq!(cycle.notes[0].restart.at, at(110));
    assert!(gone(&cycle).is_empty(), "it is not written yet");
    noted(&mut cluster, &cycle, at(111));
    assert_eq!(gone(&cluster.cycle(at(112))), ["gang-0"]);
    assert!(gone(&cluster.cycle(at(113))).is_empty(), "it is on its way");
}

#[test]
fn by_policy_gang_all_pods_go_and_an_eviction_that_is_refused_is_tried_again() {
    let mut cluster = cluster(says("gang"));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(100));
    let cycle = cluster.cycle(at(110));
    noted(&mut cluster, &cycle, at(110));
    let cycle = cluster.cycle(at(111));
    assert_eq!(gone(&cycle), ["gang-0", "gang-1"]);
    for evict in &cycle.evictions {
        let refused = Outcome::Failed("a disruption budget says no".to_owned());
        cluster.evicted(&evict.pod, &evict.uid, &refused, at(111));
    }
    assert!(gone(&cluster.cycle(at(112))).is_empty());
    assert_eq!(gone(&cluster.cycle(at(117))), ["gang-0", "gang-1"]);
}

#[test]
fn pods_that_have_come_since_are_left_alone_until_the_cool_down_is_over() {
    let mut cluster = cluster(says("gang"));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(100));
    let cycle = cluster.cycle(at(110));
    noted(&mut cluster, &cycle, at(110));
    cluster.cycle(at(111));
    for (pod_name, node) in [("gang-0", "a"), ("gang-1", "b")] {
        cluster.remove(Kind::Pod, &name("team", pod_name));
        cluster.put(pod(pod_name, node, 112));
    }
    strike(&mut cluster, Some("gang-0-112"));
    for seconds in 113..410 {
        let cycle = cluster.cycle(at(seconds));
        assert!(cycle.notes.is_empty() && gone(&cycle).is_empty(), "after {seconds} s");
    }
    let trouble = cluster.faults().trouble(&(Dialect::Kai, name("team", "gang"))).unwrap();
    assert!(trouble.message.contains("stay until 2026-01-01T00:06:50Z"), "{}", trouble.message);
    assert_eq!(cluster.cycle(at(410)).notes.len(), 1);
}

/// A pod that was made and got its node then.
fn bound(name: &str, node: &str, made: i64, then: i64) -> Object {
    let Object::Pod(pod) = pod(name, node, made) else { panic!("no pod") };
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(then)}]});
    let status = serde_json::from_value(status).unwrap();
    Object::Pod(Box::new(muster_scheduler::input::Pod { status, ..*pod }))
}

#[test]
fn a_pod_that_waited_for_a_node_when_its_gang_was_restarted_is_left_alone_when_it_has_one() {
    let mut before = cluster(says("gang"));
    before.put(bound("gang-0", "a", 0, 1));
    before.put(bound("gang-1", "b", 0, 1));
    before.put(pod("gang-2", "", 0));
    strike(&mut before, Some("gang-0-0"));
    before.cycle(at(100));
    let cycle = before.cycle(at(110));
    noted(&mut before, &cycle, at(110));
    assert_eq!(gone(&before.cycle(at(111))), ["gang-0", "gang-1"]);
    // Whoever leads next reads what is written.
    let mut written = says("gang");
    for (key, text) in cycle.notes[0].annotations() {
        written[key] = text.into();
    }
    let mut after = cluster(written);
    for cluster in [&mut before, &mut after] {
        for pod_name in ["gang-0", "gang-1"] {
            cluster.remove(Kind::Pod, &name("team", pod_name));
        }
        cluster.put(bound("gang-0", "c", 111, 113));
        cluster.put(bound("gang-2", "b", 0, 113));
        for seconds in 114..130 {
            assert!(gone(&cluster.cycle(at(seconds))).is_empty(), "after {seconds} s");
        }
    }
}

#[test]
fn a_leader_that_comes_after_ends_what_was_begun_and_begins_nothing_anew() {
    let mut cluster = cluster(json!({"muster.dev/fault-policy": "gang",
        "muster.dev/fault-restart": at(110), "muster.dev/fault-restart-up-to": at(0)}));
    // The pod that was faulted has gone already, and another has come.
    cluster.remove(Kind::Pod, &name("team", "gang-0"));
    cluster.put(pod("gang-0", "c", 111));
    assert_eq!(gone(&cluster.cycle(at(112))), ["gang-1"]);
}

/// Strikes the gang from then on and says when it is restarted, each time by another leader that reads what is written.
fn restarts(until: i64) -> Vec<(i64, u32)> {
    let (mut written, mut made, mut all) = (says("gang"), 0, Vec::new());
    let mut now = 100;
    while now < until {
        let mut cluster = cluster(written.clone());
        cluster.put(pod("gang-0", "a", made));
        cluster.put(pod("gang-1", "b", made));
        strike(&mut cluster, Some(&format!("gang-0-{made}")));
        let note = loop {
            now += 10;
            let cycle = cluster.cycle(at(now));
            assert!(gone(&cycle).is_empty(), "after {now} s");
            if let Some(note) = cycle.notes.into_iter().next() {
                break note;
            }
        };
        for (key, text) in note.annotations() {
            written[key] = text.into();
        }
        all.push((now, note.restart.count));
        made = now + 2;
    }
    all
}

#[test]
fn restarts_in_a_row_come_slower_and_slower() {
    let all = restarts(20_000);
    let apart: Vec<i64> = all.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(apart[..6], [300, 600, 1200, 2400, 3600, 3600]);
    assert_eq!(all[4].1, 5);
}

#[test]
fn a_restart_after_hours_is_the_first_again() {
    let mut cluster =
        cluster(json!({"muster.dev/fault-policy": "gang", "muster.dev/fault-restart": at(0),
        "muster.dev/fault-restart-up-to": at(-10), "muster.dev/fault-restarts": "9"}));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(3000));
    assert!(cluster.cycle(at(3599)).notes.is_empty());
    let trouble = cluster.faults().trouble(&(Dialect::Kai, name("team", "gang"))).unwrap();
    assert!(trouble.message.ends_with("(restart 9 in a row)"), "{}", trouble.message);
    strike(&mut cluster, None);
    cluster.cycle(at(7200));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(7201));
    assert_eq!(cluster.cycle(at(7211)).notes[0].restart.count, 1);
}

#[test]
fn no_restart_begins_while_the_note_of_one_before_is_on_its_way() {
    let mut cluster = cluster(says("gang"));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(100));
    let note = cluster.cycle(at(110)).notes.remove(0);
    for seconds in (120..1000).step_by(20) {
        assert!(cluster.cycle(at(seconds)).notes.is_empty(), "after {seconds} s");
    }
    let failed = Outcome::Failed("no answer".to_owned());
    cluster.noted(&note.group, note.restart.at, &failed, at(1000));
    let next = cluster.cycle(at(1010)).notes.remove(0).restart;
    assert_eq!((next.at, next.count), (at(1010), 1));
}

#[test]
fn a_restart_that_cannot_be_written_evicts_nobody() {
    let mut cluster = cluster(says("gang"));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(100));
    let note = cluster.cycle(at(110)).notes.remove(0);
    let failed = Outcome::Failed("403".to_owned());
    cluster.noted(&note.group, note.restart.at, &failed, at(110));
    assert!(cluster.cycle(at(111)).notes.is_empty());
    let cycle = cluster.cycle(at(116));
    assert_eq!(cycle.notes[0].restart.at, at(116), "the cool-down counts from then");
    assert!(gone(&cycle).is_empty());
}

#[test]
fn a_node_that_is_not_ready_or_gone_is_a_fault_and_one_that_comes_back_in_time_is_none() {
    for vanish in [false, true] {
        let mut cluster = cluster(says("evict"));
        let go = |cluster: &mut Cluster| match vanish {
            true => cluster.remove(Kind::Node, &name("", "b")),
            false => cluster.put(node("b", false)),
        };
        go(&mut cluster);
        cluster.cycle(at(100));
        let bad = if vanish { Bad::NodeGone } else { Bad::NodeNotReady };
        let group = (Dialect::Kai, name("team", "gang"));
        assert_eq!(cluster.faults().trouble(&group).map(|trouble| trouble.bad), Some(bad));
        cluster.put(node("b", true));
        assert!(cluster.cycle(at(115)).notes.is_empty());
        assert!(cluster.faults().trouble(&group).is_none());
        go(&mut cluster);
        cluster.cycle(at(200));
        assert!(cluster.cycle(at(259)).notes.is_empty(), "nodes have longer than devices");
        let cycle = cluster.cycle(at(260));
        noted(&mut cluster, &cycle, at(260));
        assert_eq!(gone(&cluster.cycle(at(261))), ["gang-1"]);
    }
}

#[test]
fn nobody_goes_while_most_nodes_are_bad_and_it_is_said() {
    let mut cluster = cluster(says("evict"));
    let trouble = |cluster: &Cluster| {
        let trouble = cluster.faults().trouble(&(Dialect::Kai, name("team", "gang")));
        trouble.unwrap().message.clone()
    };
    for bad in ["a", "b"] {
        cluster.put(node(bad, false));
    }
    cluster.remove(Kind::Node, &name("", "c"));
    cluster.put(pod("gang-2", "c", 0));
    for seconds in (100..1000).step_by(10) {
        let cycle = cluster.cycle(at(seconds));
        assert!(cycle.notes.is_empty() && gone(&cycle).is_empty(), "after {seconds} s");
    }
    let said = trouble(&cluster);
    assert!(said.ends_with("; not now: 3 of 3 nodes are not ready or gone"), "{said}");
    // One is well again: two of three may well be bad at once.
    cluster.put(node("c", true));
    let cycle = cluster.cycle(at(1000));
    assert_eq!(cycle.notes.len(), 1);
    assert!(!trouble(&cluster).contains("not now"));
    // What was begun does not go on either while most are bad.
    noted(&mut cluster, &cycle, at(1000));
    cluster.put(node("c", false));
    assert!(gone(&cluster.cycle(at(1001))).is_empty());
    cluster.put(node("c", true));
    assert_eq!(gone(&cluster.cycle(at(1002))), ["gang-0", "gang-1"]);
}

#[test]
fn a_node_that_cannot_be_read_gets_no_pods_and_those_that_it_has_stay() {
    let mut cluster = cluster(says("gang"));
    for name_of in ["b", "c"] {
        cluster.set_aside(Kind::Node, &name("", name_of));
    }
    cluster.put(pod("gang-2", "", 0));
    for seconds in [100, 200, 300] {
        let cycle = cluster.cycle(at(seconds));
        assert!(cycle.notes.is_empty() && gone(&cycle).is_empty() && cycle.binds.is_empty());
    }
    assert_eq!(cluster.faults().faulted(), 0);
    cluster.put(node("c", true));
    assert_eq!(cluster.cycle(at(301)).binds[0].node, "c");
}

#[test]
fn the_policy_is_the_pods_else_the_groups_else_that_of_a_queue_above() {
    let begins = |cluster: &mut Cluster| {
        strike(cluster, Some("gang-0-0"));
        cluster.cycle(at(100));
        let note = cluster.cycle(at(110)).notes.pop();
        note.map(|note| note.policy)
    };
    let mut by_queue = cluster(json!({}));
    by_queue.put(queue("q", "above", json!({})));
    by_queue.put(queue("above", "q", says("gang")));
    assert_eq!(begins(&mut by_queue), Some(Policy::Gang));
    let mut by_group = cluster(says("evict"));
    by_group.put(queue("q", "", says("gang")));
    assert_eq!(begins(&mut by_group), Some(Policy::Evict));
    let mut by_pod = cluster(says("gang"));
    let Object::Pod(mut own) = pod("gang-0", "a", 0) else { panic!("no pod") };
    own.metadata.annotations.insert("muster.dev/fault-policy", "none");
    by_pod.put(Object::Pod(own));
    assert_eq!(begins(&mut by_pod), None);
}

#[test]
fn a_policy_that_means_nothing_is_told_with_its_place_and_evicts_nobody() {
    let mut cluster = cluster(says("reboot"));
    strike(&mut cluster, Some("gang-0-0"));
    cluster.cycle(at(100));
    assert!(cluster.cycle(at(110)).notes.is_empty());
    let trouble = cluster.faults().trouble(&(Dialect::Kai, name("team", "gang"))).unwrap();
    let told = "annotation muster.dev/fault-policy of pod group team/gang: \"reboot\" is no fault policy: write none, \
        evict or gang; nothing is done";
    assert!(trouble.message.ends_with(told), "{}", trouble.message);
}

#[test]
fn a_faulty_device_is_out_of_the_next_cycle() {
    let mut cluster = cluster(json!({}));
    cluster.remove(Kind::Pod, &name("team", "gang-0"));
    cluster.remove(Kind::Pod, &name("team", "gang-1"));
    strike(&mut cluster, Some("nobody"));
    for number in 0..3 {
        cluster.put(pod(&format!("gang-{number}"), "", 0));
    }
    let mut nodes: Vec<String> =
        cluster.cycle(at(1)).binds.into_iter().map(|one| one.node).collect();
    nodes.sort();
    assert_eq!(nodes, ["b", "c"], "seven devices of eight are no room for eight");
}
