//! Whether the kubelet can give what discovery sees, and the other way round.
//!
//! ```text
//!   seen, works, not offered     device-not-offered     nobody can get it
//!   offered, not seen            device-unknown         a pod that gets it will not be told of
//! ```
//!
//! The kubelet offers healthy devices only, so one that discovery calls faulty may be missing. A vendor of whom nothing is
//! offered has no plugin, or one that is just starting: that says nothing. Pure.

use std::collections::BTreeSet;

use muster_proto::device::{Inventory, Vendor};
use muster_proto::podresources::v1::AllocatableResourcesResponse;

use super::device_id::{DeviceId, ResourceNames};
use crate::problem::Finding;

/// How many ids that mean nothing are told of.
const MOST: usize = 16;

/// How the two differ.
pub fn compare(
    offers: &AllocatableResourcesResponse,
    inventory: &Inventory,
    resources: &ResourceNames,
) -> Vec<Finding> {
    // The first moments say little.
    if !inventory.settled {
        return Vec::new();
    }
    let mut vendors: BTreeSet<Vendor> = BTreeSet::new();
    let mut offered: BTreeSet<(Vendor, u32)> = BTreeSet::new();
    let mut strange: BTreeSet<&str> = BTreeSet::new();
    for devices in &offers.devices {
        let Some(vendor) = resources.vendor(&devices.resource_name) else { continue };
        // Cores are counted, not numbered: they say nothing of devices.
        if devices.resource_name.ends_with("/npu-core") {
            continue;
        }
        for id in &devices.device_ids {
            vendors.insert(vendor);
            let device = DeviceId::parse(vendor, id, inventory);
            match device.filter(|it| inventory.device(vendor, it.id).is_some()) {
                Some(device) => drop(offered.insert((vendor, device.id))),
                None => drop(strange.insert(id)),
            }
        }
    }
    let missing = inventory.devices.iter().filter(|device| {
        let known = vendors.contains(&device.vendor) && device.health.usable();
        known && !offered.contains(&(device.vendor, device.id))
    });
    let not_offered = missing.map(|device| {
        let message = format!(
            "{} is there and works as far as discovery knows, but the kubelet does not offer it to pods: look at the \
             device plugin's log and at the health that it reports",
            device.end(),
        );
        Finding::new("device-not-offered", device.end().to_string(), message)
    });
    let unknown = strange.into_iter().take(MOST).map(|id| {
        let id: String = id.chars().take(64).collect();
        let message = format!(
            "the kubelet offers device {id} to pods, which this node does not have as far as discovery knows: compare \
             `muster-agent discover` with the device plugin's list"
        );
        Finding::new("device-unknown", format!("kubelet: {id}"), message)
    });
    not_offered.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use muster_proto::device::{Device, Health};
    use muster_proto::podresources::v1::ContainerDevices;
    use proptest::prelude::*;

    use super::*;

    const NPU: &str = "huawei.com/Ascend910";

    fn inventory() -> Inventory {
        let mut devices: Vec<Device> =
            (0..3).map(|id| Device::new(Vendor::Ascend, id, "")).collect();
        let mut gpu = Device::new(Vendor::Nvidia, 0, "");
        gpu.uuid = Some("GPU-a".into());
        devices.push(gpu);
        Inventory { settled: true, devices, ..Inventory::default() }
    }

    fn offers(all: &[(&str, &[&str])]) -> AllocatableResourcesResponse {
        let one = |(resource, ids): &(&str, &[&str])| ContainerDevices {
            resource_name: (*resource).into(),
            device_ids: ids.iter().map(|id| (*id).into()).collect(),
            topology: None,
        };
        let devices = all.iter().map(one).collect();
        AllocatableResourcesResponse { devices, ..AllocatableResourcesResponse::default() }
    }

    fn offered(all: &[(&str, &[&str])], inventory: &Inventory) -> Vec<(&'static str, String)> {
        let found = compare(&offers(all), inventory, &ResourceNames::default());
        found.into_iter().map(|finding| (finding.reason, finding.subject)).collect()
    }

    #[test]
    fn what_only_one_side_knows_is_a_finding() {
        let all: &[&str] = &["Ascend910-0", "Ascend910-1", "Ascend910-2"];
        assert_eq!(offered(&[(NPU, all), ("rdma/hca", &["x"])], &inventory()), []);
        assert_eq!(offered(&[], &inventory()), [], "no plugin is there");
        assert_eq!(offered(&[(NPU, &[])], &inventory()), [], "its plugin is just starting");
        assert_eq!(offered(&[("huawei.com/npu-core", &["npu-core-7"])], &inventory()), []);
        assert_eq!(
            offered(&[(NPU, &["Ascend910-0", "Ascend910-2-1", "Ascend910-9"])], &inventory()),
            [
                ("device-not-offered", "NPU1".to_owned()),
                ("device-unknown", "kubelet: Ascend910-9".to_owned()),
            ],
            "a slice is an offer of its device"
        );
        let mut early = inventory();
        early.settled = false;
        assert_eq!(offered(&[(NPU, &["Ascend910-9"])], &early), []);
        let mut faulty = inventory();
        faulty.devices[1].health = Health::Faulty("lost".into());
        assert_eq!(offered(&[(NPU, &["Ascend910-0", "Ascend910-2"])], &faulty), []);
    }

    #[test]
    fn a_gpu_is_known_by_its_uuid() {
        assert_eq!(offered(&[("nvidia.com/gpu", &["GPU-a::0"])], &inventory()), []);
        let found = offered(&[("nvidia.com/gpu", &["GPU-b"])], &inventory());
        let expected =
            [("device-not-offered", "GPU0".into()), ("device-unknown", "kubelet: GPU-b".into())];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn whatever_is_offered_the_findings_are_few(
            ids in prop::collection::vec("\\PC{0,80}", 0..60),
        ) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let all = [(NPU, ids.as_slice()), ("nvidia.com/gpu", ids.as_slice())];
            let found = compare(&offers(&all), &inventory(), &ResourceNames::default());
            prop_assert!(found.len() <= MOST + inventory().devices.len());
        }
    }
}
