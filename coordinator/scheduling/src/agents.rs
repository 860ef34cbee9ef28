//! What agents say of their nodes, as the scheduler needs it: devices and their faults, and which pods hold a faulty one.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::device::{Chip, Device, Health, Inventory, Vendor};
use muster_proto::pod::PodDevices;
use muster_scheduler::input::{self, InventoryDevice, ResourceList, SuperPodPlace};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::cluster_events::Change;
use muster_hub::{Hub, What};

/// Tells which nodes have something new, first of all those that are known.
pub async fn follow(hub: Hub, to: mpsc::Sender<Change>, stop: CancellationToken) {
    let mut changes = hub.subscribe();
    let mut everything = true;
    loop {
        if std::mem::take(&mut everything) {
            for node in hub.inventories().into_keys() {
                if to.send(Change::Agent(node)).await.is_err() {
                    return;
                }
            }
        }
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = changes.recv() => received,
        };
        match received {
            Ok(changed) if matches!(changed.what, What::Inventory | What::Pods) => {
                if to.send(Change::Agent(changed.node)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => everything = true,
            Err(RecvError::Closed) => return,
        }
    }
}

/// A node's devices in the scheduler's words. `offered` is what its kubelet offers. None before everything has been looked at.
pub fn inventory(
    node: &str,
    seen: &Inventory,
    offered: Option<&ResourceList>,
) -> Option<input::Inventory> {
    let device = |device: &Device| InventoryDevice {
        id: device.id,
        resource: resource(device, offered),
        fault: fault(device).map(str::to_owned),
        ring: device.island.filter(|_| device.vendor == Vendor::Ascend),
        clique: device
            .fabric
            .as_ref()
            .map(|fabric| format!("{}.{}", fabric.cluster_uuid, fabric.clique_id)),
    };
    seen.settled.then(|| input::Inventory {
        node: node.to_owned(),
        devices: seen.devices.iter().map(device).collect(),
        super_pod: seen.super_pod.map(|place| SuperPodPlace {
            id: place.id,
            server_index: place.server_index,
            size: 0,
        }),
    })
}

/// Identities of pods that hold a faulty device, and what is wrong with it.
pub fn faulted(seen: &Inventory, pods: &[Arc<PodDevices>]) -> BTreeMap<String, String> {
    let mut faulted = BTreeMap::new();
    for pod in pods {
        let first = pod.devices.iter().find_map(|held| {
            let device = seen.device(held.vendor, held.id)?;
            fault(device).map(|why| format!("device {} of {}: {why}", held.id, held.resource))
        });
        if let Some(what) = first {
            faulted.insert(pod.pod.uid.clone(), what);
        }
    }
    faulted
}

fn fault(device: &Device) -> Option<&str> {
    match &device.health {
        Health::Faulty(why) => Some(why),
        Health::Ok | Health::Degraded(_) | Health::Unknown => None,
    }
}

/// The resource that a device counts as: what the node offers of its vendor, else what its plugin usually calls it.
fn resource(device: &Device, offered: Option<&ResourceList>) -> String {
    let usual = match (device.vendor, device.chip) {
        (Vendor::Nvidia, _) => "nvidia.com/gpu",
        (_, Chip::Ascend310) => "huawei.com/Ascend310",
        (_, Chip::Ascend310b) => "huawei.com/Ascend310B",
        (_, Chip::Ascend310p) => "huawei.com/Ascend310P",
        (_, Chip::AscendA5) => "huawei.com/npu",
        _ => "huawei.com/Ascend910",
    };
    let names = || offered.into_iter().flat_map(|list| list.iter()).map(|(name, _)| name);
    if device.vendor == Vendor::Nvidia || names().any(|name| name == usual) {
        return usual.to_owned();
    }
    let whole = |name: &&str| {
        matches!(*name, "huawei.com/npu" | "ascend.com/npu")
            || name.strip_prefix("huawei.com/Ascend").is_some_and(|kind| !kind.contains('-'))
    };
    names().find(whole).unwrap_or(usual).to_owned()
}

#[cfg(test)]
mod tests {
    use muster_kube::quantity::Quantity;
    use muster_proto::pod::{Held, PodRef};

    use super::*;

    fn seen() -> Inventory {
        let mut devices: Vec<Device> =
            (0..2).map(|id| Device::new(Vendor::Ascend, id, "")).collect();
        devices[1].health = Health::Faulty("lost".into());
        Inventory { settled: true, devices, ..Inventory::default() }
    }

    fn resources(offered: &[&str]) -> Vec<String> {
        let one: Quantity = serde_json::from_str("1").unwrap();
        let offered: ResourceList = offered.iter().map(|name| (*name, one)).collect();
        let known = inventory("n", &seen(), Some(&offered)).unwrap();
        known.devices.into_iter().map(|device| device.resource).collect()
    }

    #[test]
    fn a_device_counts_as_what_its_node_offers() {
        assert_eq!(resources(&["cpu", "huawei.com/Ascend910"]), ["huawei.com/Ascend910"; 2]);
        assert_eq!(resources(&["cpu", "huawei.com/npu"]), ["huawei.com/npu"; 2]);
        assert_eq!(resources(&["cpu", "huawei.com/Ascend910-16c"]), ["huawei.com/Ascend910"; 2]);
        assert_eq!(resources(&["cpu"]), ["huawei.com/Ascend910"; 2]);
    }

    #[test]
    fn nothing_is_told_before_everything_has_been_looked_at() {
        assert!(inventory("n", &Inventory { settled: false, ..seen() }, None).is_none());
    }

    #[test]
    fn a_pod_is_struck_by_a_faulty_device_that_it_holds_and_by_no_other() {
        let pod = |uid: &str, id: u32| {
            let held = Held {
                vendor: Vendor::Ascend,
                id,
                container: "c".into(),
                resource: "huawei.com/Ascend910".into(),
                part: None,
            };
            let pod = PodRef { namespace: "ns".into(), name: uid.into(), uid: uid.into() };
            Arc::new(PodDevices { pod, devices: vec![held] })
        };
        let faulted = faulted(&seen(), &[pod("well", 0), pod("bad", 1)]);
        let what = "device 1 of huawei.com/Ascend910: lost".to_owned();
        assert_eq!(faulted, BTreeMap::from([("bad".to_owned(), what)]));
    }
}
