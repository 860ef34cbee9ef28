use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::device::{
    Chip, Device, Driver, End, Fabric, Health, HostAddress, Join, Link, Mig, Neighbour, Nic,
    PciAddress, PortState, SuperPod, Vendor,
};
use crate::pod::{Held, PodRef};

fn text() -> impl Strategy<Value = String> {
    ".{0,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9.-]{0,20}"
}

fn vendor() -> impl Strategy<Value = Vendor> {
    prop_oneof![Just(Vendor::Ascend), Just(Vendor::Nvidia)]
}

fn chip() -> impl Strategy<Value = Chip> {
    proptest::sample::select(vec![
        Chip::Ascend910a,
        Chip::Ascend910b,
        Chip::AscendA3,
        Chip::Ascend310p,
        Chip::Ascend310,
        Chip::Ascend310b,
        Chip::AscendA5,
        Chip::NvidiaGpu,
        Chip::Unknown,
    ])
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        Just(Health::Ok),
        Just(Health::Unknown),
        text().prop_map(Health::Degraded),
        text().prop_map(Health::Faulty),
    ]
}

fn port() -> impl Strategy<Value = PortState> {
    prop_oneof![Just(PortState::Up), Just(PortState::Down), Just(PortState::Unknown)]
}

fn pci() -> impl Strategy<Value = PciAddress> {
    (any::<u32>(), any::<u8>(), 0u8..32, 0u8..8)
        .prop_map(|(domain, bus, slot, function)| PciAddress { domain, bus, slot, function })
}

fn device() -> impl Strategy<Value = Device> {
    let who = (vendor(), any::<u32>(), chip(), text(), text(), health());
    let ids = (
        option::of(any::<u32>()),
        option::of(any::<(u32, u32)>()),
        option::of(text()),
        option::of(any::<u32>()),
        option::of(pci()),
        option::of(any::<u32>()),
        option::of(text()),
        option::of(any::<u32>()),
    );
    let net = (
        option::of(any::<IpAddr>()),
        option::of(any::<IpAddr>()),
        port(),
        option::of((text(), text())),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of((text(), any::<u32>())),
        option::of(text()),
        vec((text(), text()), 0..3),
    );
    (who, ids, net).prop_map(|(who, ids, net)| Device {
        vendor: who.0,
        id: who.1,
        chip: who.2,
        model: who.3,
        path: who.4,
        health: who.5,
        logic_id: ids.0,
        card: ids.1,
        uuid: ids.2,
        minor: ids.3,
        driver_index: ids.7,
        pci: ids.4,
        numa: ids.5,
        cpus: ids.6,
        ip: net.0,
        vnic_ip: net.1,
        port: net.2,
        neighbour: net.3.map(|(switch, port)| Neighbour { switch, port }),
        super_device_id: net.4,
        island: net.5,
        fabric: net.6.map(|(cluster_uuid, clique_id)| Fabric { cluster_uuid, clique_id }),
        nic: net.7,
        mig: net.8.into_iter().map(|(uuid, profile)| Mig { uuid, profile }).collect(),
    })
}

fn nic() -> impl Strategy<Value = Nic> {
    let who = (text(), any::<u32>(), option::of(pci()), option::of(any::<u32>()));
    let net = (
        option::of(text()),
        port(),
        text(),
        option::of(any::<u32>()),
        option::of((any::<u32>(), text())),
        option::of(any::<IpAddr>()),
    );
    (who, net).prop_map(|(who, net)| Nic {
        name: who.0,
        port: who.1,
        pci: who.2,
        numa: who.3,
        netdev: net.0,
        state: net.1,
        link_layer: net.2,
        rate: net.3,
        gid: net.4,
        ip: net.5,
    })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        any::<u32>().prop_map(End::Npu),
        any::<u32>().prop_map(End::Gpu),
        any::<u32>().prop_map(End::Nic),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    prop_oneof![
        Just(Join::Sio),
        Just(Join::Hccs),
        Just(Join::HccsSwitch),
        any::<u8>().prop_map(Join::NvLink),
        Just(Join::Pix),
        Just(Join::Pxb),
        Just(Join::Phb),
        Just(Join::Node),
        Just(Join::Sys),
        Just(Join::Na),
    ]
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let driver = (vendor(), text()).prop_map(|(vendor, version)| Driver { vendor, version });
    let link = (end(), end(), join()).prop_map(|(a, b, join)| Link { a, b, join });
    let super_pod = (any::<u32>(), any::<u32>(), option::of(any::<u32>()))
        .prop_map(|(id, server_index, size)| SuperPod { id, server_index, size });
    let address =
        (text(), any::<IpAddr>()).prop_map(|(interface, ip)| HostAddress { interface, ip });
    (
        any::<bool>(),
        vec(driver, 0..3),
        vec(device(), 0..4),
        vec(nic(), 0..3),
        vec(link, 0..6),
        option::of(super_pod),
        vec(address, 0..3),
    )
        .prop_map(|(settled, drivers, devices, nics, links, super_pod, addresses)| Inventory {
            server_id: super_pod.map(|place| format!("10.0.0.{}", place.id)),
            settled,
            drivers,
            devices,
            nics,
            links,
            super_pod,
            addresses,
        })
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<u64>().prop_map(|seed| Digest::of(&seed.to_le_bytes()))
}

fn place() -> impl Strategy<Value = Place> {
    (name(), name(), name()).prop_map(|(pod_uid, volume, file)| Place { pod_uid, volume, file })
}

fn delivered() -> impl Strategy<Value = Delivered> {
    (place(), any::<u64>(), digest()).prop_map(|(place, generation, digest)| Delivered {
        place,
        generation,
        digest,
    })
}

fn pod() -> impl Strategy<Value = PodDevices> {
    let held = (vendor(), any::<u32>(), text(), text(), option::of(text())).prop_map(
        |(vendor, id, container, resource, part)| Held { vendor, id, container, resource, part },
    );
    (name(), name(), name(), vec(held, 0..4)).prop_map(|(namespace, name, uid, devices)| {
        PodDevices { pod: PodRef { namespace, name, uid }, devices }
    })
}

fn from_agent() -> impl Strategy<Value = FromAgent> {
    let known = || option::of(digest());
    let hello = (
        (any::<u32>(), name(), text(), text(), text()),
        (known(), known(), vec(delivered(), 0..3)),
    )
        .prop_map(|(who, what)| Hello {
            protocol: who.0,
            node: who.1,
            boot_id: who.2,
            version: who.3,
            instance: who.4,
            inventory: what.0,
            pods: what.1,
            delivered: what.2,
        });
    let pods = (any::<bool>(), vec(pod(), 0..3), vec(name(), 0..3))
        .prop_map(|(full, upserts, gone)| PodsChanged { full, upserts, gone });
    let outcome = prop_oneof![
        digest().prop_map(AckOutcome::Delivered),
        Just(AckOutcome::Retired),
        (text(), text()).prop_map(|(reason, message)| AckOutcome::Refused { reason, message }),
    ];
    let ack = (place(), any::<u64>(), outcome).prop_map(|(place, generation, outcome)| Ack {
        place,
        generation,
        outcome,
    });
    prop_oneof![
        hello.prop_map(FromAgent::Hello),
        inventory().prop_map(|inventory| FromAgent::Inventory(Box::new(inventory))),
        pods.prop_map(FromAgent::Pods),
        ack.prop_map(FromAgent::Ack),
        any::<u64>().prop_map(FromAgent::Ping),
    ]
}

fn from_hub() -> impl Strategy<Value = FromHub> {
    let welcome =
        (any::<u64>(), text(), option::of(digest()), option::of(digest()), 10u64..600_000)
            .prop_map(|(epoch, version, inventory, pods, millis)| Welcome {
                epoch,
                version,
                inventory,
                pods,
                ping_every: Duration::from_millis(millis),
            });
    let chunk = (digest(), 0u64..1000, vec(any::<u8>(), 0..64), 0u64..2).prop_map(
        |(digest, offset, bytes, more)| Chunk {
            digest,
            packed_size: offset + bytes.len() as u64 + more,
            offset,
            bytes: bytes.into(),
            last: more == 0,
        },
    );
    let delivery = (place(), any::<u64>(), digest(), 0u32..=0o777, option::of(any::<u32>()))
        .prop_map(|(place, generation, digest, mode, group)| Delivery {
            place,
            generation,
            digest,
            mode,
            group,
        });
    prop_oneof![
        welcome.prop_map(FromHub::Welcome),
        chunk.prop_map(FromHub::Chunk),
        (any::<u64>(), delivery).prop_map(|(epoch, delivery)| FromHub::Deliver { epoch, delivery }),
        (any::<u64>(), place(), any::<u64>()).prop_map(|(epoch, place, generation)| {
            FromHub::Retire { epoch, place, generation }
        }),
        any::<u64>().prop_map(FromHub::Pong),
        option::of(name()).prop_map(FromHub::Redirect),
    ]
}

proptest! {
    #[test]
    fn what_an_agent_says_arrives_as_it_was_said(message in from_agent()) {
        let bytes = v1::FromAgent::from(&message).encode_to_vec();
        let read = FromAgent::try_from(v1::FromAgent::decode(&bytes[..]).unwrap());
        prop_assert_eq!(read, Ok(message));
    }

    #[test]
    fn what_a_hub_says_arrives_as_it_was_said(message in from_hub()) {
        let bytes = v1::FromHub::from(message.clone()).encode_to_vec();
        let read = FromHub::try_from(v1::FromHub::decode(&bytes[..]).unwrap());
        prop_assert_eq!(read, Ok(message));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..512)) {
        if let Ok(wire) = v1::FromAgent::decode(&bytes[..]) {
            let _ = FromAgent::try_from(wire);
        }
        if let Ok(wire) = v1::FromHub::decode(&bytes[..]) {
            let _ = FromHub::try_from(wire);
        }
    }

    #[test]
    fn a_good_message_with_a_changed_byte_makes_no_reader_panic(
        agent in from_agent(), hub in from_hub(), at in any::<usize>(), byte in any::<u8>(),
    ) {
        let mut bytes = v1::FromAgent::from(&agent).encode_to_vec();
        let length = bytes.len().max(1);
        if let Some(place) = bytes.get_mut(at % length) { *place = byte; }
        if let Ok(wire) = v1::FromAgent::decode(&bytes[..]) {
            let _ = FromAgent::try_from(wire);
        }
        let mut bytes = v1::FromHub::from(hub).encode_to_vec();
        let length = bytes.len().max(1);
        if let Some(place) = bytes.get_mut(at % length) { *place = byte; }
        if let Ok(wire) = v1::FromHub::decode(&bytes[..]) {
            let _ = FromHub::try_from(wire);
        }
    }
}

fn wire_place(file: &str) -> Option<v1::Place> {
    Some(v1::Place { pod_uid: "u".into(), volume: "v".into(), file: file.into() })
}

#[test]
fn what_is_wrong_with_a_message_names_its_field() {
    let device = |path: String| v1::Device { vendor: 1, path, ..Default::default() };
    let inventory =
        |inventory: v1::Inventory| v1::from_agent::Message::Inventory(inventory.encode_to_vec());
    let ack = |file: &str| {
        v1::from_agent::Message::Ack(v1::Ack {
            place: wire_place(file),
            generation: 1,
            outcome: Some(v1::ack::Outcome::Retired(true)),
        })
    };
    let cases = [
        (None, "message is missing"),
        (
            Some(inventory(v1::Inventory {
                devices: vec![device(String::new()), device("x".repeat(1025))],
                ..Default::default()
            })),
            "inventory.devices[1].path has 1025 bytes; 1024 are allowed",
        ),
        (
            Some(inventory(v1::Inventory {
                devices: vec![device(String::new()); MOST_DEVICES + 1],
                ..Default::default()
            })),
            "inventory.devices has 1025 entries; 1024 are allowed",
        ),
        (
            Some(inventory(v1::Inventory {
                devices: vec![v1::Device { ip: Some(vec![1, 2, 3]), ..device(String::new()) }],
                ..Default::default()
            })),
            "inventory.devices[0].ip is no address: 3 bytes instead of 4 or 16",
        ),
        (
            Some(inventory(v1::Inventory {
                drivers: vec![v1::Driver { vendor: 9, version: String::new() }],
                ..Default::default()
            })),
            "inventory.drivers[0].vendor is 9, which is no vendor",
        ),
        (Some(ack("..")), "ack.place.file \"..\" is no name of a file or directory"),
        (Some(ack("a/b")), "ack.place.file \"a/b\" is no name of a file or directory"),
        (Some(ack("")), "ack.place.file has 0 bytes; 1 to 255 are allowed"),
    ];
    for (message, expected) in cases {
        let invalid = FromAgent::try_from(v1::FromAgent { message }).unwrap_err();
        assert_eq!(invalid.to_string(), expected);
    }
}

#[test]
fn parts_and_orders_of_a_hub_stay_within_their_bounds() {
    let digest = vec![0; 32];
    let chunk = |packed_size, offset, length: usize, last| {
        v1::from_hub::Message::Chunk(v1::BlobChunk {
            digest: digest.clone(),
            packed_size,
            offset,
            bytes: vec![0; length].into(),
            last,
        })
    };
    let order = |mode| {
        v1::from_hub::Message::Deliver(v1::Deliver {
            epoch: 1,
            place: wire_place("f"),
            generation: 1,
            digest: digest.clone(),
            mode,
            group: None,
        })
    };
    let cases = [
        (chunk(10, 0, 10, true), None),
        (chunk(u64::MAX, 0, 1, false), Some("chunk.packed_size")),
        (chunk(200_000, 0, LARGEST_CHUNK + 1, false), Some("chunk.bytes")),
        (chunk(10, u64::MAX, 1, false), Some("chunk.offset")),
        (chunk(10, 0, 10, false), Some("chunk.offset")),
        (chunk(10, 0, 5, true), Some("chunk.offset")),
        (order(0o644), None),
        (order(0o4755), Some("deliver.mode")),
    ];
    for (message, field) in cases {
        let read = FromHub::try_from(v1::FromHub { message: Some(message) });
        assert_eq!(read.err().map(|invalid| invalid.field).as_deref(), field);
    }
}

#[test]
fn equal_inventories_have_one_digest_and_different_ones_do_not() {
    let one = Inventory {
        devices: vec![Device::new(Vendor::Ascend, 0, "/dev/davinci0")],
        ..Inventory::default()
    };
    let mut other = one.clone();
    assert_eq!(inventory_digest(&one), inventory_digest(&other));
    other.devices[0].health = Health::Faulty("ecc".into());
    assert_ne!(inventory_digest(&one), inventory_digest(&other));
}
