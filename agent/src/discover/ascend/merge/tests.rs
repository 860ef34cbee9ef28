use std::collections::HashSet;
use std::net::Ipv4Addr;

use muster_proto::device::{Join, PciAddress};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::files::Function;
use super::super::parse::conf::Conf;
use super::*;

/// Few numbers, so that they meet.
fn id() -> std::ops::Range<u32> {
    0..6
}

fn ip() -> impl Strategy<Value = IpAddr> {
    (1..8_u8).prop_map(|last| Ipv4Addr::new(10, 0, 0, last).into())
}

fn chip() -> impl Strategy<Value = Chip> {
    use Chip::*;
    prop::sample::select(vec![Ascend910a, Ascend910b, AscendA3, Ascend310p, Unknown])
}

fn files() -> impl Strategy<Value = Files> {
    let conf = option::of(btree_map(id(), option::of(ip()), 0..6));
    (btree_set(id(), 0..6), conf, chip(), any::<bool>()).prop_map(|(ids, conf, chip, known)| {
        let function = (PciAddress { domain: 0, bus: 1, slot: 0, function: 0 }, chip);
        let functions = known.then_some(function).into_iter();
        let functions = functions.map(|(at, chip)| (at, Function { chip, ..Function::default() }));
        Files {
            ids,
            conf_absent: conf.is_none(),
            conf: conf.map(|addresses| Conf { addresses }),
            functions: functions.collect(),
            ..Files::default()
        }
    })
}

fn row() -> impl Strategy<Value = Row> {
    let names = prop::sample::select(vec!["910B3", "Ascend910", "310P3", ""]);
    (id(), 0..3_u32, option::of(id()), names, 0..3).prop_map(|(npu, chip, phy, name, health)| {
        let health = match health {
            0 => Health::Ok,
            1 => Health::Faulty("Alarm".into()),
            _ => Health::Unknown,
        };
        Row { npu, chip, phy, name: name.into(), health, pci: None }
    })
}

fn topo() -> impl Strategy<Value = Topo> {
    let joins = prop::sample::select(vec![Join::Hccs, Join::Sys, Join::Sio]);
    (btree_set(id(), 0..6), joins).prop_map(|(numbers, join)| {
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let pairs = numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b)));
        let joins = pairs.filter(|(a, b)| a < b).map(|pair| (pair, join)).collect();
        Topo { numbers, joins, cpus: BTreeMap::new() }
    })
}

fn facts() -> impl Strategy<Value = Facts> {
    let spod = (option::of(0..3_u32), option::of(0..3_u32), option::of(0..2_u32))
        .prop_map(|(sdid, server, id)| Spod { sdid, size: None, id, server });
    let port = prop::sample::select(vec![PortState::Up, PortState::Down, PortState::Unknown]);
    (
        btree_set(id(), 0..6),
        option::of(vec(row(), 0..6)),
        option::of(topo()),
        btree_map((id(), 0..3_u32), spod, 0..6),
        btree_map(id(), option::of(ip()), 0..6),
        btree_map(id(), option::of(ip()), 0..6),
        btree_map(id(), port, 0..6),
    )
        .prop_map(|(of, rows, topo, spod, ip, vnic, link)| Facts {
            asked: !of.is_empty(),
            of,
            rows,
            topo,
            spod,
            ip,
            vnic,
            link,
            ..Facts::default()
        })
}

proptest! {
    #[test]
    fn whatever_was_said_the_answer_holds_together(
        files in files(),
        facts in facts(),
        seen in btree_set(id(), 0..6),
    ) {
        let path = |id: u32| format!("/dev/davinci{id}");
        let seen = seen.into_iter().map(|id| (id, Device::new(Vendor::Ascend, id, path(id))));
        let seen: BTreeMap<u32, Device> = seen.collect();
        let report = merge(&files, &facts, &seen);

        let ids: Vec<u32> = report.devices.iter().map(|device| device.id).collect();
        prop_assert!(ids.is_sorted_by(|a, b| a < b), "each device once, in order: {ids:?}");
        prop_assert!(files.ids.iter().chain(seen.keys()).all(|id| ids.contains(id)));
        let mut used = HashSet::new();
        for device in &report.devices {
            let gone = device.health == Health::Faulty(GONE.to_owned());
            prop_assert_eq!(gone, !files.ids.contains(&device.id));
            prop_assert!(device.ip.is_none() || (!gone && device.chip != Chip::Ascend310p));
            prop_assert!(device.ip.is_none_or(|ip| used.insert(ip)), "an address of two");
            prop_assert!(device.port != PortState::Down || device.health != Health::Ok);
        }
        let there = |end| report.devices.iter().any(|device| device.end() == end);
        prop_assert!(report.links.iter().all(|link| link.a < link.b && there(link.a) && there(link.b)));
        let mut pairs = HashSet::new();
        prop_assert!(report.links.iter().all(|link| pairs.insert((link.a, link.b))));
        let mut subjects = HashSet::new();
        for finding in &report.findings {
            prop_assert!(subjects.insert(&finding.subject), "two problems of {}", finding.subject);
        }
    }
}
