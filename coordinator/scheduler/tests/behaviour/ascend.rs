//! NPUs by ring and super-pod.

use muster_scheduler::decisions::{Action, Decisions};
use serde_json::{Value, json};

use crate::world::{World, told};

const NPU: &str = "huawei.com/Ascend910";

/// Nodes of eight NPUs, with the plugin.
fn boards(names: &[&str]) -> World {
    let mut world = World::new().queue("q", -1.0);
    for name in names {
        world = world.with_node(json!({"metadata": {"name": name}, "status": {"allocatable":
            {"cpu": "64", "memory": "64Gi", "pods": "110", NPU: "8"}}}));
    }
    let plugins =
        ["predicates", "proportion", "priority", "nodeavailability", "nodeplacement", "ascend"];
    let plugins: Vec<_> = plugins.iter().map(|name| json!({"name": name})).collect();
    world.config(json!({"actions": "allocate, preempt", "tiers": [{"plugins": plugins}]}))
}

/// What an agent tells of a node with two rings.
fn rings(node: &str, faulty: &[u32]) -> Value {
    let device = |id: u32| {
        let fault = faulty.contains(&id).then_some("ecc");
        json!({"id": id, "resource": NPU, "ring": id / 4, "fault": fault})
    };
    json!({"node": node, "devices": (0..8).map(device).collect::<Vec<_>>()})
}

fn pod(world: World, name: &str, npus: u32, node: &str, has: &str) -> World {
    let marks = if has.is_empty() { json!({}) } else { json!({"huawei.com/AscendReal": has}) };
    let asks = json!({"cpu": "1", NPU: npus.to_string()});
    world.group(name, "q", json!({})).pods_with(name, 1, asks, node, marks)
}

fn handshake(world: World) -> World {
    world.with("schedulerParams", json!({"ascendHandshake": true}))
}

/// `pod node npus`.
fn given(decisions: &Decisions) -> Vec<String> {
    let line = |it: &muster_scheduler::decisions::Decision| {
        let npus = it.annotations.get(NPU).cloned().unwrap_or_default().replace("Ascend910-", "");
        format!("{} {} {npus}", it.pod.trim_start_matches("ns/"), it.node)
    };
    decisions.decisions.iter().map(line).collect()
}

#[test]
fn a_pod_gets_npus_of_one_ring_of_the_node_where_it_fits_best() {
    let world = boards(&["a", "b"]).with("inventories", json!([rings("a", &[]), rings("b", &[])]));
    let world = pod(world, "old", 2, "b", "Ascend910-4,Ascend910-5");
    let world = pod(world, "new", 2, "", "");
    assert_eq!(given(&handshake(world).decide()), ["new-1 b 6,7"]);
}

#[test]
fn six_free_npus_have_no_room_for_four_unless_they_are_of_one_ring() {
    let world = boards(&["a"]).with("inventories", json!([rings("a", &[])]));
    let world = pod(world, "x", 1, "a", "Ascend910-0");
    let world = pod(world, "y", 1, "a", "Ascend910-5");
    let decided = pod(world, "new", 4, "", "").decide();
    assert_eq!(told(&decided), [""; 0]);
    let why = "no ring of NPUs has room (1, 2 or 4 of one ring, or all)";
    assert_eq!(decided.reasons["ns/new"].nodes[why], 1, "{:?}", decided.reasons);
}

#[test]
fn faulty_npus_do_not_count() {
    let inventories = json!([rings("a", &[1]), rings("b", &[])]);
    let world = boards(&["a", "b"]).with("inventories", inventories);
    let world = pod(pod(world, "four", 4, "", ""), "more", 8, "", "");
    assert_eq!(given(&handshake(world).decide()), ["four-0 a 4,5,6,7", "more-1 b 0,1,2,3,4,5,6,7"]);
}

#[test]
fn pods_of_one_cycle_do_not_get_the_same_npus() {
    let world = boards(&["a"]).with("inventories", json!([rings("a", &[])]));
    let world = world.group("g", "q", json!({"minMember": 5}));
    let world = world.pods_with("g", 4, json!({"cpu": "1", NPU: "1"}), "", json!({}));
    let world = world.pods_with("g", 1, json!({"cpu": "1", NPU: "4"}), "", json!({}));
    let decided = handshake(world).decide();
    assert_eq!(given(&decided), ["g-0 a 0", "g-1 a 1", "g-2 a 2", "g-3 a 3", "g-4 a 4,5,6,7"]);
    assert_eq!(decided.decisions[0].annotations["predicate-time"], "1767225600000000000");
}

#[test]
fn nobody_is_told_of_npus_unless_the_handshake_is_asked_for() {
    let world = boards(&["a"]).with("inventories", json!([rings("a", &[])]));
    let decided = pod(world, "new", 2, "", "").decide();
    assert_eq!(told(&decided), ["bind new-0 a"]);
    assert!(decided.decisions[0].annotations.is_empty());
}

#[test]
fn a_pod_that_does_not_say_what_it_has_is_taken_to_have_what_it_would_get() {
    let world = boards(&["a"]).with("inventories", json!([rings("a", &[])]));
    let world = pod(pod(world, "old", 4, "a", ""), "new", 4, "", "");
    assert_eq!(given(&handshake(world).decide()), ["new-1 a 4,5,6,7"]);
}

#[test]
fn npus_of_a_pod_that_has_to_leave_are_promised() {
    let world = boards(&["a"]).with("inventories", json!([rings("a", &[])]));
    let world = pod(world, "low0", 4, "a", "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3");
    let world = pod(world, "low1", 1, "a", "Ascend910-6");
    let world = world.group("high", "q", json!({"priorityClassName": "high"}));
    let world = world.pods_with("high", 1, json!({"cpu": "1", NPU: "4"}), "", json!({}));
    let told = told(&world.decide());
    assert_eq!(told.len(), 2, "one pod is enough: {told:?}");
    assert!(told.contains(&"pipeline high-2 a".to_owned()), "{told:?}");
}

fn in_super_pods(nodes: &[(&str, u32)]) -> World {
    let place = |(node, id): &(&str, u32)| json!({"node": node, "superPod": {"id": id, "serverIndex": 0, "size": 4}});
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let inventories: Vec<Value> = nodes.iter().map(place).collect();
    boards(&names).with("inventories", json!(inventories))
}

#[test]
fn a_gang_goes_to_the_smallest_super_pod_that_has_room_for_all_of_it() {
    let gang = |pods: usize| {
        let world = in_super_pods(&[("a", 1), ("b", 2), ("c", 2), ("d", 3), ("e", 3), ("f", 3)]);
        let world = world.group("g", "q", json!({"minMember": pods}));
        let decided =
            world.pods_with("g", pods, json!({"cpu": "1", NPU: "8"}), "", json!({})).decide();
        let mut nodes: Vec<String> = decided.decisions.iter().map(|it| it.node.clone()).collect();
        nodes.sort();
        nodes.concat()
    };
    assert_eq!(gang(2), "bc");
    assert_eq!(gang(3), "def");
    assert_eq!(gang(5), "bcdef", "more than one holds: the largest first");
}

#[test]
fn a_gang_grows_where_it_is() {
    let world = in_super_pods(&[("a", 1), ("b", 1), ("c", 2), ("d", 2)]);
    let world = world.group("g", "q", json!({"minMember": 1}));
    let asks = json!({"cpu": "1", NPU: "8"});
    let world = world.pods_with("g", 1, asks.clone(), "d", json!({}));
    let world = world.pods_with("g", 1, asks, "", json!({}));
    assert_eq!(told(&world.decide()), ["bind g-1 c"]);
}

/// What is decided for a gang of four in a cluster that another queue has filled: bound, evicted, promised.
fn for_a_gang(resource: &str) -> [usize; 3] {
    let mut world = World::new().queue("due", 4.0).queue("left-over", 0.0);
    for name in ["a", "b"] {
        world = world.with_node(json!({"metadata": {"name": name}, "status": {"allocatable":
            {"cpu": "64", "memory": "64Gi", "pods": "110", resource: "8"}}}));
    }
    let asks = json!({"cpu": "1", resource: "1"});
    for node in ["a", "b"] {
        let group = format!("old-{node}");
        world = world.group(&group, "left-over", json!({})).pods_with(
            &group,
            8,
            asks.clone(),
            node,
            json!({}),
        );
    }
    let world = world.group("gang", "due", json!({"minMember": 4})).pods_with(
        "gang",
        4,
        asks,
        "",
        json!({}),
    );
    let decisions = world.decide();
    let count = |action| decisions.decisions.iter().filter(|one| one.action == action).count();
    [count(Action::Bind), count(Action::Evict), count(Action::Pipeline)]
}

#[test]
fn room_is_made_for_npus_as_it_is_for_graphics_devices() {
    assert_eq!(for_a_gang("nvidia.com/gpu"), [0, 4, 4]);
    assert_eq!(for_a_gang(NPU), [0, 4, 4]);
}
