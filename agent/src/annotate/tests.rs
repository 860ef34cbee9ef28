use muster_proto::annotation::PodRanktable;
use muster_proto::device::{Chip, Device, Fabric, Mig, SuperPod};
use muster_proto::pod::Held;
use proptest::prelude::*;

use super::*;

fn held(vendor: Vendor, id: u32, container: &str, part: Option<&str>) -> Held {
    Held {
        vendor,
        id,
        container: container.into(),
        resource: "r".into(),
        part: part.map(str::to_owned),
    }
}

fn pod(devices: Vec<Held>) -> PodDevices {
    let pod = PodRef { namespace: "ns".into(), name: "w-0".into(), uid: "u".into() };
    PodDevices { pod, devices }
}

fn npu(id: u32, chip: Chip) -> Device {
    let mut device = Device::new(Vendor::Ascend, id, format!("/dev/davinci{id}"));
    device.chip = chip;
    device.ip = format!("10.20.0.{}", id + 2).parse().ok();
    device.numa = Some(1);
    device.logic_id = Some(id);
    device
}

fn inventory(devices: Vec<Device>) -> Inventory {
    Inventory { settled: true, devices, ..Inventory::default() }
}

#[test]
fn a_910b_pod_has_exactly_the_plain_form() {
    let node = inventory((0..16).map(|id| npu(id, Chip::Ascend910b)).collect());
    let ids = [10, 2, 2, 0];
    let devices = ids.into_iter().map(|id| held(Vendor::Ascend, id, "c", None)).collect();
    let text = desired(&pod(devices), &node, "192.168.1.10").unwrap().write();
    assert_eq!(
        text,
        r#"{"pod_name":"w-0","server_id":"192.168.1.10","devices":[{"device_id":"0","device_ip":"10.20.0.2"},{"device_id":"2","device_ip":"10.20.0.4"},{"device_id":"10","device_ip":"10.20.0.12"}]}"#
    );
}

#[test]
fn an_npu_without_a_port_has_an_empty_address() {
    let mut device = npu(0, Chip::Ascend310p);
    device.ip = None;
    let table =
        desired(&pod(vec![held(Vendor::Ascend, 0, "c", None)]), &inventory(vec![device]), "s");
    assert_eq!(table.unwrap().devices[0].device_ip, "");
}

#[test]
fn an_npu_whose_port_has_no_known_address_is_told_of_as_a_problem_only() {
    let one = pod(vec![held(Vendor::Ascend, 0, "c", None), held(Vendor::Ascend, 3, "c", None)]);
    for (chip, writes) in [
        (Chip::Ascend910a, false),
        (Chip::Ascend910b, false),
        (Chip::AscendA3, false),
        (Chip::Ascend310p, true),
    ] {
        let mut second = npu(3, chip);
        second.super_device_id = Some(7);
        let mut node = inventory(vec![npu(0, chip), second]);
        assert_eq!(address_missing(&one, &node), None);
        node.devices[1].ip = None;
        assert_eq!(desired(&one, &node, "s").is_some(), writes, "{chip:?}");
        let finding = address_missing(&one, &node);
        assert_eq!(finding.is_none(), writes, "{chip:?}");
        if let Some(Finding { reason, subject, message }) = finding {
            assert_eq!((reason, subject.as_str()), ("address-missing", "ns/w-0 addresses"));
            assert!(message.contains("ns/w-0") && message.contains("NPU 3"), "{message}");
        }
        node.settled = false;
        assert_eq!(address_missing(&one, &node), None, "it may come yet");
    }
}

#[test]
fn an_a3_pod_says_where_it_is_in_its_super_pod() {
    let mut device = npu(3, Chip::AscendA3);
    device.super_device_id = Some(67_108_867);
    device.vnic_ip = "192.1.2.3".parse().ok();
    let mut node = inventory(vec![device]);
    node.super_pod = Some(SuperPod { id: 5, server_index: 40, size: Some(384) });
    let text = desired(&pod(vec![held(Vendor::Ascend, 3, "c", None)]), &node, "s").unwrap().write();
    assert_eq!(
        text,
        r#"{"pod_name":"w-0","server_id":"s","devices":[{"device_id":"3","device_ip":"10.20.0.5","super_device_id":"67108867","vnic_ip":"192.1.2.3"}],"super_pod_id":"5","server_index":"40"}"#
    );
}

#[test]
fn a_gpu_pod_says_which_gpus_and_where_they_are() {
    let mut gpu = Device::new(Vendor::Nvidia, 1, "/dev/nvidia1");
    gpu.uuid = Some("GPU-a".into());
    gpu.pci = "0000:2a:00.0".parse().ok();
    gpu.numa = Some(0);
    gpu.fabric = Some(Fabric { cluster_uuid: "f".into(), clique_id: 2 });
    gpu.mig = vec![Mig { uuid: "MIG-x".into(), profile: "1g.10gb".into() }];
    let node = inventory(vec![gpu]);
    let of = |parts: &[Option<&str>]| {
        let devices = parts.iter().map(|part| held(Vendor::Nvidia, 1, "c", *part)).collect();
        let table = desired(&pod(devices), &node, "s").unwrap();
        let uuids: Vec<String> = table.devices.iter().filter_map(|d| d.uuid.clone()).collect();
        (uuids, table.devices[0].extras.clone())
    };
    let (uuids, extras) = of(&[None]);
    assert_eq!(uuids, ["GPU-a"]);
    let extras: Vec<String> = extras.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = [
        r#"fabric_clique_id="2""#,
        r#"fabric_cluster_uuid="f""#,
        r#"numa_node="0""#,
        r#"pci_bus_id="0000:2a:00.0""#,
    ];
    assert_eq!(extras, expected);
    assert_eq!(of(&[Some("GPU-a::0"), Some("GPU-a::1")]).0, ["GPU-a"]);
    assert_eq!(of(&[Some("MIG-x"), Some("MIG-y::3")]).0, ["MIG-x", "MIG-y"]);
}

#[test]
fn nothing_is_said_before_everything_is_known() {
    let one = pod(vec![held(Vendor::Ascend, 0, "c", None)]);
    let mut node = inventory(vec![npu(0, Chip::Ascend910b)]);
    assert!(desired(&one, &node, "s").is_some());
    assert_eq!(desired(&one, &node, ""), None);
    assert_eq!(desired(&pod(vec![]), &node, "s"), None);
    let hole = vec![held(Vendor::Ascend, 0, "c", None), held(Vendor::Ascend, 1, "c", None)];
    assert_eq!(desired(&pod(hole), &node, "s"), None, "a device is not there");
    node.settled = false;
    assert_eq!(desired(&one, &node, "s"), None);
}

#[test]
fn a_pod_with_devices_of_two_vendors_gets_its_npus_and_a_finding() {
    let node = inventory(vec![npu(0, Chip::Ascend910b), Device::new(Vendor::Nvidia, 4, "")]);
    let both = pod(vec![held(Vendor::Nvidia, 4, "c", None), held(Vendor::Ascend, 0, "c", None)]);
    let table = desired(&both, &node, "s").unwrap();
    assert_eq!(table.devices.iter().map(|d| d.device_id.as_str()).collect::<Vec<_>>(), ["0"]);
    assert_eq!(mixed(&both).unwrap().reason, "mixed-vendors");
    assert_eq!(mixed(&pod(vec![held(Vendor::Ascend, 0, "c", None)])), None);
}

proptest! {
    #[test]
    fn devices_are_told_once_in_the_order_of_their_numbers(ids in prop::collection::vec(0u32..64, 1..40)) {
        let node = inventory((0..64).map(|id| npu(id, Chip::Ascend910b)).collect());
        let devices = ids.iter().map(|id| held(Vendor::Ascend, *id, "c", None)).collect();
        let table = desired(&pod(devices), &node, "s").unwrap();
        let told: Vec<u32> = table.devices.iter().map(|d| d.device_id.parse().unwrap()).collect();
        let expected: BTreeSet<u32> = ids.into_iter().collect();
        prop_assert_eq!(told, expected.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(PodRanktable::parse(&table.write()), Ok(table));
    }
}
