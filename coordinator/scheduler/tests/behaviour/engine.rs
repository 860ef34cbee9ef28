//! Decisions on small clusters.

use std::collections::BTreeMap;

use muster_scheduler::framework::Registry;
use muster_scheduler::snapshot::{InFlight, InFlightKind, Overlay};
use serde_json::json;

use crate::world::{World, told};

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let world = World::new().node("a", 4, json!({})).queue("q", -1.0).group(
        "g",
        "q",
        json!({"minMember": 3}),
    );
    assert_eq!(
        told(&world.pods("g", 3, 1, "").decide()),
        ["bind g-0 a", "bind g-1 a", "bind g-2 a"]
    );
    let world = World::new().node("a", 2, json!({})).queue("q", -1.0).group(
        "g",
        "q",
        json!({"minMember": 3}),
    );
    assert_eq!(told(&world.pods("g", 3, 1, "").decide()), [""; 0]);
}

#[test]
fn an_elastic_group_grows_as_far_as_there_is_room() {
    let world = World::new().node("a", 3, json!({})).queue("q", -1.0).group(
        "g",
        "q",
        json!({"minMember": 1}),
    );
    assert_eq!(told(&world.pods("g", 5, 1, "").decide()).len(), 3);
}

#[test]
fn full_nodes_are_filled_first_and_ties_go_by_name() {
    let world = World::new()
        .node("b", 4, json!({}))
        .node("a", 4, json!({}))
        .node("c", 4, json!({}))
        .queue("q", -1.0)
        .group("old", "q", json!({}))
        .group("new", "q", json!({"minMember": 2}))
        .pods("old", 1, 3, "c")
        .pods("new", 2, 1, "");
    assert_eq!(told(&world.decide()), ["bind new-1 c", "bind new-2 a"]);
}

#[test]
fn a_shared_device_is_filled_before_another_is_opened() {
    let half = json!({"gpu-fraction": "0.5"});
    let world = World::new()
        .node("a", 2, json!({"nvidia.com/gpu.memory": "80000"}))
        .queue("q", -1.0)
        .group("x", "q", json!({}))
        .group("y", "q", json!({}))
        .group("z", "q", json!({}))
        .pods_with("x", 1, json!({"cpu": "1"}), "", half.clone())
        .pods_with("y", 1, json!({"cpu": "1"}), "", half.clone())
        .pods_with("z", 1, json!({"cpu": "1"}), "", half);
    let decided = world.decide();
    assert_eq!(told(&decided), ["bind x-0 a", "bind y-1 a", "bind z-2 a"]);
    let devices: Vec<_> = decided.decisions.iter().map(|it| it.gpu_groups.clone()).collect();
    assert_eq!(devices[0], devices[1]);
    assert_ne!(devices[1], devices[2]);
}

#[test]
fn a_device_that_one_pod_has_a_part_of_is_taken_though_another_is_promised_one() {
    let half = json!({"gpu-fraction": "0.5"});
    let (device, nothing) = (["device".to_owned()], BTreeMap::new());
    let place = |kind| InFlight { node: "a", gpu_groups: &device, annotations: &nothing, kind };
    // By name the nominated one comes first, and something leaves that it could wait for.
    let overlay = Overlay {
        in_flight: BTreeMap::from([
            (("ns", "x-1"), place(InFlightKind::Nominated)),
            (("ns", "y-2"), place(InFlightKind::Binding)),
        ]),
        ..Overlay::default()
    };
    let world = World::new()
        .node("a", 2, json!({"nvidia.com/gpu.memory": "80000"}))
        .queue("q", -1.0)
        .group("old", "q", json!({}))
        .pods("old", 1, 1, "a")
        .leaving()
        .group("x", "q", json!({}))
        .group("y", "q", json!({}))
        .group("z", "q", json!({}))
        .pods_with("x", 1, json!({"cpu": "1"}), "", half.clone())
        .pods_with("y", 1, json!({"cpu": "1"}), "", half)
        .pods("z", 1, 1, "");
    let decided = told(&world.decide_over(&overlay, &Registry::default(), &[]));
    assert!(!decided.contains(&"bind z-3 a".to_owned()), "{decided:?}");
}

#[test]
fn a_queue_below_its_quota_takes_back_from_one_above_and_no_more_than_it_needs() {
    let world = World::new()
        .node("a", 4, json!({}))
        .queue("mine", 2.0)
        .queue("theirs", 2.0)
        .group("r0", "theirs", json!({}))
        .group("r1", "theirs", json!({}))
        .group("r2", "theirs", json!({}))
        .group("r3", "theirs", json!({}))
        .group("new", "mine", json!({}))
        .pods("r0", 1, 1, "a")
        .pods("r1", 1, 1, "a")
        .pods("r2", 1, 1, "a")
        .pods("r3", 1, 1, "a")
        .pods("new", 1, 1, "");
    let decided = world.decide();
    let told = told(&decided);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&"pipeline new-4 a".to_owned()));
    let eviction = decided.decisions.iter().find_map(|it| it.eviction.clone()).unwrap();
    assert_eq!((eviction.action, eviction.beneficiary.as_deref()), ("reclaim", Some("ns/new")));
    assert_eq!(eviction.freed[2], 1.0);
    assert!(
        eviction.lawful.contains("queue theirs is above its share for queue mine"),
        "{}",
        eviction.lawful
    );
}

#[test]
fn a_more_important_group_takes_the_place_of_a_less_important_one_of_its_queue() {
    let world = World::new()
        .node("a", 1, json!({}))
        .queue("q", 1.0)
        .group("low", "q", json!({}))
        .group("high", "q", json!({"priorityClassName": "high"}))
        .pods("low", 1, 1, "a")
        .pods("high", 1, 1, "");
    assert_eq!(told(&world.decide()), ["pipeline high-1 a", "evict low-0 a"]);
}

#[test]
fn pods_move_together_so_that_a_large_one_fits_and_nobody_loses_its_place() {
    let world = World::new()
        .node("a", 4, json!({}))
        .node("b", 4, json!({}))
        .queue("q", -1.0)
        .group("x", "q", json!({}))
        .group("y", "q", json!({}))
        .group("big", "q", json!({}))
        .pods("x", 1, 2, "a")
        .pods("y", 1, 2, "b")
        .pods("big", 1, 4, "");
    let told = told(&world.decide());
    let of = |action: &str| told.iter().filter(|it| it.starts_with(action)).count();
    assert_eq!((of("evict"), of("pipeline"), of("bind")), (1, 2, 0), "{told:?}");
}

#[test]
fn a_required_rack_holds_the_whole_gang() {
    let place = |zone: &str, rack: &str| json!({"zone": zone, "rack": rack});
    let world = World::new()
        .racks()
        .node("a", 2, place("z0", "r0"))
        .node("b", 2, place("z0", "r1"))
        .node("c", 2, place("z0", "r1"))
        .queue("q", -1.0)
        .group(
            "g",
            "q",
            json!({"minMember": 4, "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "rack"}}),
        )
        .pods("g", 4, 1, "");
    assert_eq!(told(&world.decide()), ["bind g-0 b", "bind g-1 b", "bind g-2 c", "bind g-3 c"]);
}

#[test]
fn npus_are_devices_with_quotas_of_their_own_dimension() {
    let node = json!({"metadata": {"name": "npu"}, "status": {"allocatable":
        {"cpu": "64", "memory": "64Gi", "pods": "110", "huawei.com/Ascend910": "8"}}});
    let mut world =
        World::new().queue_of("q", json!({"quota": 4, "limit": 4, "overQuotaWeight": 1}), "");
    world = world.group("g", "q", json!({"minMember": 1})).group("h", "q", json!({"minMember": 1}));
    world = world.pods_with("g", 1, json!({"huawei.com/Ascend910": "4"}), "", json!({}));
    world = world.pods_with("h", 1, json!({"huawei.com/Ascend910": "1"}), "", json!({}));
    let decided = world.with_node(node).decide();
    assert_eq!(told(&decided), ["bind g-0 npu"]);
    assert!(
        decided.reasons["ns/h"].message.contains("may have 4 accelerators"),
        "{:?}",
        decided.reasons
    );
}

#[test]
fn a_device_that_an_agent_calls_faulty_is_gone() {
    let inventory = json!([{"node": "a", "devices": [{"id": 0, "resource": "nvidia.com/gpu", "fault": "ecc"}]}]);
    let world = World::new().node("a", 2, json!({})).queue("q", -1.0).group(
        "g",
        "q",
        json!({"minMember": 2}),
    );
    assert_eq!(told(&world.pods("g", 2, 1, "").with("inventories", inventory).decide()), [""; 0]);
}

#[test]
fn a_faulty_device_that_the_node_has_withdrawn_is_not_counted_twice() {
    let inventory = json!([{"node": "a", "devices": [{"id": 0, "resource": "nvidia.com/gpu", "fault": "ecc"}]}]);
    let node = json!({"metadata": {"name": "a"}, "status": {
        "capacity": {"nvidia.com/gpu": "3"},
        "allocatable": {"nvidia.com/gpu": "2", "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let world = World::new().queue("q", -1.0).group("g", "q", json!({"minMember": 2}));
    let world = world.with_node(node).pods("g", 2, 1, "").with("inventories", inventory);
    assert_eq!(told(&world.decide()), ["bind g-0 a", "bind g-1 a"]);
}

#[test]
fn a_gang_can_require_one_super_pod_of_those_that_agents_tell() {
    let place = |node: &str, id: u32| json!({"node": node, "superPod": {"id": id, "serverIndex": 0, "size": 2}});
    let topology = json!([{"metadata": {"name": "pods"}, "spec": {"levels": [{"nodeLabel": "muster.dev/super-pod"}]}}]);
    let wants = json!({"topology": "pods", "requiredTopologyLevel": "muster.dev/super-pod"});
    let world = World::new()
        .node("a", 2, json!({}))
        .node("b", 2, json!({}))
        .node("c", 2, json!({}))
        .queue("q", -1.0)
        .group("g", "q", json!({"minMember": 4, "topologyConstraint": wants}))
        .pods("g", 4, 1, "")
        .with("inventories", json!([place("a", 1), place("b", 2), place("c", 2)]))
        .with("topologies", topology);
    assert_eq!(told(&world.decide()), ["bind g-0 b", "bind g-1 b", "bind g-2 c", "bind g-3 c"]);
}

#[test]
fn pods_go_near_pods_as_they_must_and_as_they_would_rather() {
    let near =
        |key: &str| json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": key});
    let pod = |name: &str, node: &str, labels: serde_json::Value, affinity: serde_json::Value| {
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels,
                "annotations": {"pod-group-name": name}},
            "spec": {"nodeName": node, "schedulerName": "kai-scheduler", "affinity": affinity,
                "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
    };
    let must =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near("host")]}});
    let must_not = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near("host")]}});
    let rather = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": near("host")}]}});
    let pods = json!([
        pod("db", "b", json!({"app": "db"}), json!({})),
        pod("must", "", json!({}), must),
        pod("not", "", json!({}), must_not),
        pod("rather", "", json!({}), rather)
    ]);
    let plugins = ["predicates", "proportion", "nodeavailability", "nodeplacement", "podaffinity"];
    let plugins: Vec<_> = plugins.iter().map(|name| json!({"name": name})).collect();
    let mut world = World::new()
        .node("a", 0, json!({"host": "a"}))
        .node("b", 0, json!({"host": "b"}))
        .queue("q", -1.0);
    for group in ["db", "must", "not", "rather"] {
        world = world.group(group, "q", json!({}));
    }
    let world = world
        .with("pods", pods)
        .config(json!({"actions": "allocate", "tiers": [{"plugins": plugins}]}));
    assert_eq!(told(&world.decide()), ["bind must b", "bind not a", "bind rather b"]);
}
