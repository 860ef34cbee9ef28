//! Groups in the dialects of coscheduling and Volcano.

use muster_scheduler::reason::Reason;
use serde_json::{Value, json};

use crate::world::{World, told};

fn group(api: &str, name: &str, marks: Value, mut spec: Value) -> Value {
    spec["queue"] = json!("q");
    json!({"apiVersion": api, "metadata": {"name": name, "namespace": "ns", "annotations": marks,
        "labels": {"kai.scheduler/queue": "q"}}, "spec": spec})
}

const VOLCANO: &str = "scheduling.volcano.sh/v1beta1";
const COSCHEDULING: &str = "scheduling.x-k8s.io/v1alpha1";

fn pod(name: &str, labels: Value, annotations: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "kai-scheduler",
            "containers": [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Pending"}})
}

fn of_volcano(name: &str, task: &str) -> Value {
    pod(name, json!({}), json!({"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": task}))
}

fn of_coscheduling(name: &str) -> Value {
    pod(name, json!({"scheduling.x-k8s.io/pod-group": "g"}), json!({}))
}

fn world(gpus: u32, group: Value, pods: Vec<Value>) -> World {
    let world = World::new().node("a", gpus, json!({})).queue("q", -1.0);
    world.with("podGroups", json!([group])).with("pods", json!(pods))
}

#[test]
fn a_coscheduling_group_is_placed_whole_and_never_in_part() {
    let spec = json!({"minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"nvidia.com/gpu": "3"}});
    let pods = || ["p0", "p1", "p2"].map(of_coscheduling).to_vec();
    let three = world(3, group(COSCHEDULING, "g", json!({}), spec.clone()), pods());
    assert_eq!(told(&three.decide()), ["bind p0 a", "bind p1 a", "bind p2 a"]);
    // There is nothing to time out: pods that do not find a place together hold none.
    let decided = world(2, group(COSCHEDULING, "g", json!({}), spec), pods()).decide();
    assert_eq!(told(&decided), [""; 0]);
}

#[test]
fn what_min_resources_asks_for_has_to_exist_even_if_the_pods_ask_for_less() {
    let spec = json!({"minMember": 1, "minResources": {"nvidia.com/gpu": "5", "cpu": "1"}});
    let decided =
        world(4, group(COSCHEDULING, "g", json!({}), spec), vec![of_coscheduling("p")]).decide();
    let waiting = &decided.reasons["ns/g"];
    assert_eq!(waiting.reason, Reason::NoRoom);
    assert_eq!(
        waiting.message,
        "minResources asks for 5 of nvidia.com/gpu, and all nodes together have 4"
    );
}

#[test]
fn each_task_of_a_volcano_group_has_a_number_of_its_own() {
    let spec = json!({"minMember": 3, "minTaskMember": {"master": 1, "worker": 2}});
    let group = || group(VOLCANO, "g", json!({}), spec.clone());
    let all =
        || vec![of_volcano("m0", "master"), of_volcano("w0", "worker"), of_volcano("w1", "worker")];
    assert_eq!(told(&world(4, group(), all()).decide()), ["bind m0 a", "bind w0 a", "bind w1 a"]);
    assert_eq!(told(&world(2, group(), all()).decide()), [""; 0]);
    // Three workers are no master and two workers.
    let workers =
        vec![of_volcano("w0", "worker"), of_volcano("w1", "worker"), of_volcano("w2", "worker")];
    let decided = world(4, group(), workers).decide();
    assert_eq!(decided.reasons["ns/g"].reason, Reason::NotEnoughPods, "{:?}", decided.reasons);
}

/// Four racks of one node in two zones: `a` and `b` in one, `c` and `d` in the other.
fn racks(group: Value, pods: usize) -> World {
    let place = |zone: &str, rack: &str| json!({"zone": zone, "rack": rack});
    let names: Vec<String> = (0..pods).map(|n| format!("p{n}")).collect();
    let pods: Vec<Value> = names.iter().map(|name| of_volcano(name, "")).collect();
    World::new()
        .racks()
        .node("a", 2, place("z0", "r0"))
        .node("b", 1, place("z0", "r1"))
        .node("c", 2, place("z1", "r2"))
        .node("d", 2, place("z1", "r3"))
        .queue("q", -1.0)
        .with("podGroups", json!([group]))
        .with("pods", json!(pods))
}

fn near(mode: &str, tier: Value, pods: usize) -> (Vec<String>, Option<Reason>) {
    let topology = json!({"mode": mode, "highestTierAllowed": tier});
    let spec = json!({"minMember": pods, "networkTopology": topology});
    let decided = racks(group(VOLCANO, "g", json!({}), spec), pods).decide();
    (told(&decided), decided.reasons.get("ns/g").map(|waiting| waiting.reason))
}

#[test]
fn a_hard_tier_holds_the_whole_group() {
    assert_eq!(near("hard", json!(1), 2).0.len(), 2);
    assert_eq!(
        near("hard", json!(1), 3),
        (vec![], Some(Reason::NoDomainHasRoom)),
        "no rack has three"
    );
    let zone = near("hard", json!(2), 4).0;
    assert_eq!(zone.len(), 4, "a zone has four");
    assert!(zone.iter().all(|line| line.ends_with('c') || line.ends_with('d')), "{zone:?}");
    assert_eq!(near("hard", json!(2), 5), (vec![], Some(Reason::NoDomainHasRoom)));
    assert_eq!(near("hard", json!(9), 5).0.len(), 5, "above the highest tier is the cluster");
}

#[test]
fn a_soft_tier_is_only_preferred() {
    let told = near("soft", json!(1), 2).0;
    let nodes: Vec<&str> = told.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[0], nodes[1], "one rack, since there is one with room");
    assert_eq!(near("soft", json!(1), 7).0.len(), 7, "the whole cluster if need be");
}

#[test]
fn where_there_are_several_topologies_a_hard_one_has_to_be_named() {
    let spec =
        json!({"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    let topology = |name: &str, label: &str| json!({"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": label}]}});
    let both = json!([topology("racks", "rack"), topology("zones", "zone")]);
    let decided = racks(group(VOLCANO, "g", json!({}), spec.clone()), 3)
        .with("topologies", both.clone())
        .decide();
    let waiting = &decided.reasons["ns/g"];
    assert_eq!(waiting.reason, Reason::UnknownTopology);
    assert!(
        waiting.message.contains("annotate the group with kai.scheduler/topology"),
        "{waiting:?}"
    );
    let named = group(VOLCANO, "g", json!({"kai.scheduler/topology": "zones"}), spec);
    assert_eq!(told(&racks(named, 3).with("topologies", both).decide()).len(), 3);
}
