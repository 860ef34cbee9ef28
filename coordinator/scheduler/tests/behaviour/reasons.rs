//! Why groups wait.

use muster_scheduler::reason::Reason;
use serde_json::json;

use crate::world::World;

fn reason(world: &World, group: &str) -> (Reason, String) {
    let decided = world.decide();
    let waiting =
        decided.reasons.get(group).unwrap_or_else(|| panic!("{group} does not wait: {decided:?}"));
    (waiting.reason, waiting.message.clone())
}

fn one_node() -> World {
    World::new().node("a", 2, json!({})).queue("q", -1.0)
}

#[test]
fn a_queue_that_does_not_exist_is_named() {
    let (reason, message) =
        reason(&one_node().group("g", "nowhere", json!({})).pods("g", 1, 1, ""), "ns/g");
    assert_eq!(reason, Reason::QueueDoesNotExist);
    assert!(message.contains("queue nowhere does not exist"), "{message}");
}

#[test]
fn queues_whose_parents_form_a_cycle_do_not_exist_and_others_go_on() {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let world = one_node()
        .queue_of("x", free.clone(), "y")
        .queue_of("y", free, "x")
        .group("g", "x", json!({}))
        .group("h", "q", json!({}))
        .pods("g", 1, 1, "")
        .pods("h", 1, 1, "");
    assert_eq!(reason(&world, "ns/g").0, Reason::QueueDoesNotExist);
    assert_eq!(crate::world::told(&world.decide()), ["bind h-1 a"]);
}

#[test]
fn a_queue_with_queues_below_takes_no_groups() {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let world =
        one_node().queue_of("below", free, "q").group("g", "q", json!({})).pods("g", 1, 1, "");
    assert_eq!(reason(&world, "ns/g").0, Reason::QueueIsNotALeaf);
}

#[test]
fn a_gang_that_lacks_pods_says_how_many() {
    let world = one_node().group("g", "q", json!({"minMember": 3})).pods("g", 1, 1, "");
    assert_eq!(
        reason(&world, "ns/g"),
        (
            Reason::NotEnoughPods,
            "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"
                .to_owned()
        )
    );
}

#[test]
fn a_pod_larger_than_any_node_is_told_the_largest() {
    let world = one_node().group("g", "q", json!({})).pods("g", 1, 16, "");
    let (reason, message) = reason(&world, "ns/g");
    assert_eq!(reason, Reason::LargerThanAnyNode);
    assert!(
        message.contains("16 of nvidia.com/gpu") && message.contains("more than 2"),
        "{message}"
    );
}

#[test]
fn a_lack_of_room_comes_with_the_count_of_nodes_by_what_they_lack() {
    let world = one_node()
        .group("r", "q", json!({"preemptibility": "non-preemptible"}))
        .group("g", "q", json!({}))
        .pods("r", 1, 2, "a")
        .pods("g", 1, 1, "");
    let decided = world.decide();
    let waiting = &decided.reasons["ns/g"];
    assert_eq!(waiting.reason, Reason::NoRoom);
    assert_eq!(waiting.nodes, [("insufficient nvidia.com/gpu".to_owned(), 1)].into());
    assert_eq!((waiting.placed, waiting.needed, waiting.pods), (0, 1, 1));
}

#[test]
fn subgroups_that_ask_for_more_parts_than_there_are_cannot_run() {
    let spec = json!({"minSubGroup": 3, "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}]});
    let world = one_node().group("g", "q", spec).pods("g", 1, 1, "");
    assert_eq!(reason(&world, "ns/g").0, Reason::ImpossibleSubGroups);
}

#[test]
fn a_topology_or_level_that_does_not_exist_is_named() {
    let wants = |topology: &str, level: &str| json!({"topologyConstraint": {"topology": topology, "requiredTopologyLevel": level}});
    let world = one_node().racks().group("g", "q", wants("nowhere", "rack")).pods("g", 1, 1, "");
    let (first, message) = reason(&world, "ns/g");
    assert_eq!(first, Reason::UnknownTopology);
    assert!(message.contains("topology nowhere does not exist"), "{message}");
    let world = World::new().node("a", 2, json!({"zone": "z", "rack": "r"})).node(
        "b",
        2,
        json!({"zone": "z", "rack": "s"}),
    );
    let world =
        world.queue("q", -1.0).racks().group("g", "q", wants("racks", "shelf")).pods("g", 1, 1, "");
    assert!(reason(&world, "ns/g").1.contains("has no level shelf"));
}

#[test]
fn a_priority_class_that_does_not_exist_is_remarked_on_and_the_default_counts() {
    let world = one_node()
        .group("g", "q", json!({"priorityClassName": "urgent"}))
        .group("h", "q", json!({}))
        .pods("g", 1, 1, "")
        .pods("h", 1, 1, "");
    let decided = world.decide();
    assert_eq!(crate::world::told(&decided), ["bind g-0 a", "bind h-1 a"]);
    let told = "priority class urgent does not exist: create it, or name another; until then its priority is 50";
    assert_eq!(decided.remarks, [("ns/g".to_owned(), vec![told.to_owned()])].into());
}

#[test]
fn subgroups_that_contradict_each_other_are_remarked_on_and_the_group_is_a_plain_one() {
    let spec = |parts: serde_json::Value| json!({"subGroups": parts});
    let cycle = json!([{"name": "x", "parent": "y", "minMember": 1}, {"name": "y", "parent": "x", "minMember": 1}]);
    let orphan = json!([{"name": "x", "parent": "z", "minMember": 1}]);
    let twice = json!([{"name": "x", "minMember": 1}, {"name": "x", "minMember": 2}]);
    for (parts, why) in [
        (cycle, "the parents of spec.subGroups form a cycle"),
        (orphan, "subgroup x has the parent z, which does not exist"),
        (twice, "spec.subGroups names x twice"),
    ] {
        let decided = one_node().group("g", "q", spec(parts)).pods("g", 1, 1, "").decide();
        assert_eq!(crate::world::told(&decided), ["bind g-0 a"]);
        let [remark] = decided.remarks["ns/g"].as_slice() else { panic!("{:?}", decided.remarks) };
        assert!(remark.starts_with(why) && remark.contains("without subgroups"), "{remark}");
    }
}

#[test]
fn a_subgroup_that_needs_more_pods_than_it_has_keeps_the_whole_group_waiting() {
    let spec = json!({"subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 4}]});
    let world = one_node().group("g", "q", spec).pods("g", 2, 1, "");
    let (reason, message) = reason(&world, "ns/g");
    assert_eq!(reason, Reason::NotEnoughPods);
    let words = "Waiting for 4 pods for SubGroup y, currently 0 exist, 0 are gated.";
    assert!(message.contains(words), "{message}");
}

#[test]
fn a_group_of_one_part_waits_for_pods_in_the_words_for_the_whole_group() {
    let spec = json!({"subGroups": [{"name": "worker", "minMember": 2}]});
    let (reason, message) = reason(&one_node().group("g", "q", spec).pods("g", 1, 1, ""), "ns/g");
    assert_eq!(reason, Reason::NotEnoughPods);
    let words =
        "Job is not ready for scheduling. Waiting for 2 pods, currently 0 exist, 0 are gated";
    assert_eq!(message, words);
}

#[test]
fn a_topology_of_labels_that_no_node_has_holds_no_gang_and_says_so() {
    let wants =
        json!({"topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "rack"}});
    let world = one_node().racks().group("g", "q", wants).group("h", "q", json!({}));
    let world = world.pods("g", 1, 1, "").pods("h", 1, 1, "");
    let (first, message) = reason(&world, "ns/g");
    assert_eq!(first, Reason::NoDomainHasRoom);
    assert!(message.contains("topology racks") && message.contains("rack"), "{message}");
    assert_eq!(crate::world::told(&world.decide()), ["bind h-1 a"]);
}

#[test]
fn amounts_that_no_number_holds_are_set_aside_with_their_field_and_the_cycle_goes_on() {
    let node = |name: &str, gpus: &str| {
        json!({"metadata": {"name": name}, "status": {"allocatable":
        {"cpu": "64", "memory": "64Gi", "pods": "50", "nvidia.com/gpu": gpus}}})
    };
    let world = one_node()
        .with_node(node("b", "1e99"))
        .with_node(node("c", "-1"))
        .queue_of("r", json!({"quota": 1e300, "limit": -1, "overQuotaWeight": 1}), "")
        .group("g", "q", json!({}))
        .group("h", "r", json!({}))
        .pods("g", 1, 1, "")
        .pods("h", 1, 1, "");
    let decided = world.decide();
    assert_eq!(crate::world::told(&decided), ["bind g-0 a", "bind h-1 a"]);
    let [b, c]: [String; 2] = world.set_aside().try_into().unwrap();
    let field = "status.allocatable.nvidia.com/gpu";
    assert!(b.starts_with(&format!("Node b: {field}: `1e99` is more than 2^63 - 1")), "{b}");
    assert!(c.starts_with(&format!("Node c: {field}: `-1` is negative")), "{c}");
}
