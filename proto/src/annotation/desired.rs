//! What the annotation of a pod says, given what its node knows. The agent writes it; the coordinator takes the same from
//! the agent's stream, so that nobody else's annotation counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{AnnotatedDevice, PodRanktable};
use crate::device::{Chip, Device, Inventory, Vendor};
use crate::pod::{Held, PodDevices};

/// What a pod's annotation should say. `None`: not all is known yet, or it holds nothing. What is there stays then.
pub fn desired(pod: &PodDevices, inventory: &Inventory, server_id: &str) -> Option<PodRanktable> {
    if !inventory.settled || server_id.is_empty() {
        return None;
    }
    let vendor = pod.devices.iter().map(|held| held.vendor).min()?;
    let mut seen = BTreeSet::new();
    let mut devices = Vec::new();
    let mut in_super_pod = false;
    let mut held: Vec<&Held> = pod.devices.iter().filter(|held| held.vendor == vendor).collect();
    held.sort_by(|a, b| (a.id, &a.part).cmp(&(b.id, &b.part)));
    for held in held {
        let device = inventory.device(vendor, held.id)?;
        if lacks_address(device) {
            return None;
        }
        in_super_pod |= matches!(device.chip, Chip::AscendA3 | Chip::AscendA5);
        let annotated = annotate(device, held);
        if seen.insert((held.id, annotated.uuid.clone())) {
            devices.push(annotated);
        }
    }
    let place = inventory.super_pod.filter(|_| in_super_pod);
    Some(PodRanktable {
        pod_name: pod.pod.name.clone(),
        server_id: server_id.to_owned(),
        devices,
        super_pod_id: place.map(|place| place.id.to_string()),
        server_index: place.map(|place| place.server_index.to_string()),
    })
}

fn annotate(device: &Device, held: &Held) -> AnnotatedDevice {
    let mut extras: BTreeMap<String, Value> = BTreeMap::new();
    let mut extra = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            extras.insert(key.to_owned(), Value::String(value));
        }
    };
    let mut uuid = None;
    match device.vendor {
        Vendor::Ascend if device.chip == Chip::AscendA3 => {
            extra("vnic_ip", device.vnic_ip.map(|ip| ip.to_string()));
        }
        Vendor::Ascend => {}
        Vendor::Nvidia => {
            let slice = held.part.as_deref().filter(|part| part.starts_with("MIG-"));
            let slice = slice.map(|part| part.split("::").next().unwrap_or(part).to_owned());
            uuid = slice.or_else(|| device.uuid.clone());
            extra("pci_bus_id", device.pci.map(|pci| pci.to_string()));
            extra("numa_node", device.numa.map(|numa| numa.to_string()));
            let fabric = device.fabric.as_ref();
            extra("fabric_cluster_uuid", fabric.map(|fabric| fabric.cluster_uuid.clone()));
            extra("fabric_clique_id", fabric.map(|fabric| fabric.clique_id.to_string()));
        }
    }
    AnnotatedDevice {
        device_id: device.id.to_string(),
        device_ip: device.ip.map(|ip| ip.to_string()).unwrap_or_default(),
        super_device_id: device.super_device_id.map(|id| id.to_string()),
        uuid,
        extras,
    }
}

/// Whether it must have an address, and nobody knows it: a table with an empty one stops a job that spans servers.
pub fn lacks_address(device: &Device) -> bool {
    device.vendor == Vendor::Ascend && device.chip.has_port() && device.ip.is_none()
}
