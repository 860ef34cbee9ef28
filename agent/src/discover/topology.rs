//! How everything is joined: PCI distances where vendors say nothing, and the NIC of each GPU.
//!
//! Vendors' links are never changed: they know of cables that PCI does not show.

use std::collections::BTreeMap;

use muster_proto::device::{
    Device, End, Inventory, Join, Link, Nic, PciAddress, PortState, Vendor,
};

use super::pci::{self, Function};
use crate::host::Host;

#[cfg(test)]
mod tests;

/// How many ends are compared, each with each.
const MOST: usize = 512;

/// Completes a merged inventory: distances, nearest NICs. Puts it in order as well.
pub fn fill(host: &Host, inventory: &mut Inventory) {
    fill_with(host, inventory, &[]);
}

/// The same with functions that have been read; of others only those that are needed are read.
pub fn fill_with(host: &Host, inventory: &mut Inventory, read: &[Function]) {
    let devices = inventory.devices.iter().filter_map(|device| device.pci);
    let nics = inventory.nics.iter().filter_map(|nic| nic.pci);
    let mut functions: BTreeMap<PciAddress, Function> =
        read.iter().map(|function| (function.address, function.clone())).collect();
    for address in devices.chain(nics) {
        if !functions.contains_key(&address) {
            functions.extend(pci::function(host, address).map(|function| (address, function)));
        }
    }
    complete(inventory, &functions);
}

/// The same with functions that have been read.
fn complete(inventory: &mut Inventory, functions: &BTreeMap<PciAddress, Function>) {
    // Links name NICs by their place.
    inventory.sort();
    let devices = inventory.devices.iter().map(|device| (device.end(), device.pci));
    let nics = inventory.nics.iter().zip(0..).map(|(nic, at)| (End::Nic(at), nic.pci));
    let placed = |(end, pci): (End, Option<PciAddress>)| Some((end, functions.get(&pci?)?));
    let ends: Vec<(End, &Function)> = devices.chain(nics).filter_map(placed).take(MOST).collect();
    let mut added = Vec::new();
    for (at, (a, one)) in ends.iter().enumerate() {
        for (b, other) in ends.iter().skip(at + 1) {
            let (a, b) = (*a.min(b), *a.max(b));
            if inventory.join(a, b) == Join::Na {
                added.push(Link { a, b, join: pci::distance(one, other) });
            }
        }
    }
    // What a vendor does not know is no answer either.
    inventory.links.retain(|link| link.join != Join::Na);
    inventory.links.extend(added);
    inventory.sort();
    choose_nics(inventory);
}

/// Gives every GPU its nearest NIC.
///
/// Of NICs that are equally near, the one of the same memory, then the one that fewer GPUs have, then the first:
/// eight GPUs and eight NICs get one each. A port without a link counts as well: it is the GPU's port that has
/// none.
fn choose_nics(inventory: &mut Inventory) {
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    let mut chosen = Vec::new();
    for gpu in &inventory.devices {
        let near = |(nic, at): (&Nic, u32)| {
            let join = inventory.join(gpu.end(), End::Nic(at));
            let far = nic.numa.is_none() || nic.numa != gpu.numa;
            let users = used.get(&at).copied().unwrap_or(0);
            (join != Join::Na).then_some((join, far, users, at))
        };
        let nearest = match gpu.vendor {
            Vendor::Nvidia => inventory.nics.iter().zip(0..).filter_map(near).min(),
            // Their ports are their own.
            Vendor::Ascend => None,
        };
        if let Some((.., at)) = nearest {
            *used.entry(at).or_default() += 1;
        }
        chosen.push(nearest.map(|(join, .., at)| (join, at)));
    }
    let Inventory { devices, nics, .. } = inventory;
    for (gpu, chosen) in devices.iter_mut().zip(chosen) {
        if gpu.vendor == Vendor::Nvidia {
            let nic = chosen.and_then(|(join, at)| Some((join, nics.get(at as usize)?)));
            give(gpu, nic);
        }
    }
}

/// The address is the GPU's only when the way to it does not cross host bridges.
fn give(gpu: &mut Device, nic: Option<(Join, &Nic)>) {
    let own = nic.filter(|(join, _)| *join <= Join::Phb).map(|(_, nic)| nic);
    gpu.nic = nic.map(|(_, nic)| nic.name.clone());
    gpu.ip = own.and_then(|nic| nic.ip);
    gpu.port = own.map_or(PortState::Unknown, |nic| nic.state);
}
