use muster_proto::device::{Device, End, Fabric, Join, Link, Neighbour, SuperPod, Vendor};
use proptest::prelude::*;

use super::*;

fn npus(chip: Chip, count: u32) -> Inventory {
    let device = |id| Device { chip, ..Device::new(Vendor::Ascend, id, "") };
    Inventory { devices: (0..count).map(device).collect(), ..Inventory::default() }
}

fn gpus(count: u32) -> Inventory {
    let device = |id| Device { chip: Chip::NvidiaGpu, ..Device::new(Vendor::Nvidia, id, "") };
    Inventory { devices: (0..count).map(device).collect(), ..Inventory::default() }
}

/// All pairs, as far as they are joined.
fn joined(mut inventory: Inventory, join: impl Fn(u32, u32) -> Join) -> Inventory {
    let devices = &inventory.devices;
    let mut links = Vec::new();
    for (at, a) in devices.iter().enumerate() {
        for b in devices.iter().skip(at + 1) {
            links.push(Link { a: a.end(), b: b.end(), join: join(a.id, b.id) });
        }
    }
    inventory.links = links;
    inventory
}

/// The device ids in the order of their places.
fn walked(inventory: &Inventory) -> Vec<u32> {
    let topology = Topology::of([("s", inventory)]);
    let devices = &topology.servers["s"].devices;
    let mut ids: Vec<(u32, u32)> =
        devices.iter().map(|(id, place)| (*place, id.parse().unwrap())).collect();
    ids.sort_unstable();
    ids.into_iter().map(|(_, id)| id).collect()
}

fn plugged(mut inventory: Inventory, switches: &[&str]) -> Inventory {
    for (device, switch) in inventory.devices.iter_mut().zip(switches) {
        let (switch, port) = ((*switch).to_owned(), "1".to_owned());
        device.neighbour = (!switch.is_empty()).then_some(Neighbour { switch, port });
    }
    inventory
}

/// The servers in the order of their places.
fn servers(topology: &Topology) -> Vec<&str> {
    let mut places: Vec<_> = topology.servers.iter().collect();
    places.sort_by(|left, right| left.1.path.cmp(&right.1.path).then(left.0.cmp(right.0)));
    places.into_iter().map(|(server, _)| server.as_str()).collect()
}

#[test]
fn the_rings_of_a_910a_stay_together_however_they_are_numbered() {
    let usual =
        joined(
            npus(Chip::Ascend910a, 8),
            |a, b| {
                if a / 4 == b / 4 { Join::Hccs } else { Join::Sys }
            },
        );
    assert_eq!(walked(&usual), [0, 1, 2, 3, 4, 5, 6, 7]);
    let odd =
        joined(
            npus(Chip::Ascend910a, 8),
            |a, b| {
                if a % 2 == b % 2 { Join::Hccs } else { Join::Sys }
            },
        );
    assert_eq!(walked(&odd), [0, 2, 4, 6, 1, 3, 5, 7]);
}

#[test]
fn a_ring_of_single_links_is_walked_around() {
    let ring = [0, 2, 3, 1];
    let next = |a: u32, b: u32| (0..4).any(|at| (ring[at], ring[(at + 1) % 4]) == (a, b));
    let inventory = joined(npus(Chip::Ascend910a, 4), |a, b| {
        if next(a, b) || next(b, a) { Join::Hccs } else { Join::Phb }
    });
    assert_eq!(walked(&inventory), [0, 1, 3, 2]);
}

#[test]
fn dies_of_one_package_are_beside_each_other() {
    let links =
        joined(
            npus(Chip::AscendA3, 8),
            |a, b| {
                if a % 4 == b % 4 { Join::Sio } else { Join::HccsSwitch }
            },
        );
    assert_eq!(walked(&links), [0, 4, 1, 5, 2, 6, 3, 7]);
    // Without links the cards tell.
    let mut cards = npus(Chip::AscendA3, 8);
    cards.devices.iter_mut().for_each(|device| device.card = Some((device.id % 4, device.id / 4)));
    assert_eq!(walked(&cards), [0, 4, 1, 5, 2, 6, 3, 7]);
}

#[test]
fn two_meshes_follow_each_other_and_nothing_known_leaves_the_numbers() {
    let box16 =
        joined(
            npus(Chip::Ascend910b, 16),
            |a, b| {
                if a / 8 == b / 8 { Join::Hccs } else { Join::Sys }
            },
        );
    assert!(walked(&box16).into_iter().eq(0..16));
    assert!(walked(&npus(Chip::Ascend310p, 12)).into_iter().eq(0..12));
}

#[test]
fn gpus_follow_the_strongest_nvlinks_then_the_memory() {
    // Half of a cube mesh: two links to the partner, one to the others.
    let mesh = joined(gpus(4), |a, b| Join::NvLink(if a + b == 3 { 2 } else { 1 }));
    assert_eq!(walked(&mesh), [0, 3, 1, 2]);
    // Behind a switch all are alike; those at one memory stay together.
    let mut switched = joined(gpus(8), |_, _| Join::NvLink(18));
    switched.devices.iter_mut().for_each(|device| device.numa = Some(device.id % 2));
    assert_eq!(walked(&switched), [0, 2, 4, 6, 1, 3, 5, 7]);
    // PCIe alone.
    let cards = joined(gpus(4), |a, b| if a % 2 == b % 2 { Join::Pix } else { Join::Sys });
    assert_eq!(walked(&cards), [0, 2, 1, 3]);
}

#[test]
fn a_super_pod_gives_the_server_its_number_and_only_to_chips_that_use_it() {
    let place = SuperPod { id: 7, server_index: 40, size: None };
    let a3 = Inventory { super_pod: Some(place), ..npus(Chip::AscendA3, 2) };
    let a3 = plugged(a3, &["leaf", "leaf"]);
    let a2 = Inventory { super_pod: Some(place), ..npus(Chip::Ascend910b, 2) };
    let topology = Topology::of([("a3", &a3), ("a2", &a2)]);
    assert_eq!(topology.servers["a3"].super_pod.as_deref(), Some("7"));
    assert_eq!(topology.servers["a3"].path, ["40"]);
    assert_eq!(topology.servers["a2"].super_pod, None);
    assert!(topology.servers["a2"].path.is_empty());
}

#[test]
fn servers_on_the_same_leaf_switches_come_together() {
    let one = |switches: &[&str]| plugged(npus(Chip::Ascend910b, 2), switches);
    let nodes = [
        ("a", one(&["rail-0-1", "rail-0-2"])),
        ("b", one(&["rail-1-1", "rail-1-2"])),
        // Its first port has not heard its switch, and it still belongs to the first two rails.
        ("c", one(&["", "rail-0-2"])),
        ("d", one(&["rail-1-1", "rail-1-2"])),
    ];
    let topology = Topology::of(nodes.iter().map(|(server, inventory)| (*server, inventory)));
    assert_eq!(topology.servers["c"].path, ["~", "~", "rail-0-1", "rail-0-2"]);
    assert_eq!(servers(&topology), ["a", "c", "b", "d"]);
}

#[test]
fn the_nvlink_domain_is_wider_than_any_switch() {
    let fabric = |cluster: &str, clique_id, leaf: &str| {
        let mut inventory = plugged(gpus(2), &[leaf, leaf]);
        let fabric = Fabric { cluster_uuid: cluster.to_owned(), clique_id };
        inventory.devices.iter_mut().for_each(|device| device.fabric = Some(fabric.clone()));
        inventory
    };
    let nodes = [
        ("a", fabric("c1", 1, "x")),
        ("b", fabric("c0", 2, "x")),
        ("c", fabric("c0", 1, "y")),
        ("d", fabric("00000000-0000-0000-0000-000000000000", 0, "x")),
    ];
    let topology = Topology::of(nodes.iter().map(|(server, inventory)| (*server, inventory)));
    assert_eq!(servers(&topology), ["c", "b", "a", "d"]);
    assert_eq!(topology.servers["d"].path, ["~", "~", "x", "x"]);
}

#[test]
fn two_nodes_that_claim_one_server_are_not_believed() {
    let (one, other) = (npus(Chip::Ascend910b, 2), npus(Chip::Ascend910b, 4));
    let topology = Topology::of([("s", &one), ("s", &other), ("t", &one), ("t", &one), ("", &one)]);
    assert_eq!(topology.servers.keys().collect::<Vec<_>>(), ["t"]);
}

fn inventories() -> impl Strategy<Value = Inventory> {
    let join = prop_oneof![
        Just(Join::Sio),
        Just(Join::Hccs),
        (1..4_u8).prop_map(Join::NvLink),
        Just(Join::Pix),
        Just(Join::Sys),
        Just(Join::Na),
    ];
    let links = proptest::collection::vec((0..9_u32, 0..9_u32, join), 0..24);
    let devices = proptest::collection::vec(
        (any::<bool>(), 0..8_u32, proptest::option::of(0..3_u32), proptest::option::of("[a-c]")),
        0..12,
    );
    (devices, links).prop_map(|(devices, links)| {
        let device = |(npu, id, numa, switch): (bool, u32, Option<u32>, Option<String>)| {
            let vendor = if npu { Vendor::Ascend } else { Vendor::Nvidia };
            let neighbour = switch.map(|switch| Neighbour { switch, port: String::new() });
            Device { numa, neighbour, ..Device::new(vendor, id, "") }
        };
        let link = |(a, b, join)| Link { a: End::Npu(a), b: End::Npu(b), join };
        let mut devices: Vec<Device> = devices.into_iter().map(device).collect();
        devices.sort_by_key(|device| (device.vendor, device.id));
        devices.dedup_by_key(|device| (device.vendor, device.id));
        let links = links.into_iter().map(link).collect();
        Inventory { devices, links, ..Inventory::default() }
    })
}

proptest! {
    #[test]
    fn places_do_not_depend_on_any_order_and_every_device_has_its_own(
        nodes in proptest::collection::vec(("[a-d]", inventories()), 0..6),
    ) {
        let given = || nodes.iter().map(|(server, inventory)| (server.as_str(), inventory));
        let topology = Topology::of(given());
        let backwards: Vec<(String, Inventory)> = nodes
            .iter()
            .rev()
            .map(|(server, inventory)| {
                let mut inventory = inventory.clone();
                inventory.sort();
                inventory.devices.reverse();
                inventory.links.reverse();
                (server.clone(), inventory)
            })
            .collect();
        for (server, place) in &topology.servers {
            let mut places: Vec<u32> = place.devices.values().copied().collect();
            places.sort_unstable();
            prop_assert!(places.is_sorted_by(|a, b| a < b), "{} {:?}", server, places);
        }
        // Two nodes of one id are the same or not, in either order; sorting may have made them the same.
        let other = Topology::of(backwards.iter().map(|(id, inventory)| (id.as_str(), inventory)));
        let mut ids: Vec<&String> = nodes.iter().map(|(server, _)| server).collect();
        ids.sort();
        if ids.is_sorted_by(|a, b| a < b) {
            prop_assert_eq!(topology, other);
        }
    }
}
