//! What the agents report becomes the places that the order `topology` goes by.
//!
//! ```text
//!   super-pod (A3, A5)  ─▶ its id, then the server's number in it: inside, everything runs over HCCS
//!   all others          ─▶ NVLink domain ▸ clique ▸ leaf switches that share servers ▸ first leaf switch
//!   devices of a server ─▶ a walk from the first one, each step to the nearest that is left
//! ```
//!
//! Servers whose ports go to the same leaf switches come together, whether a server has all its ports on one switch
//! or each on a switch of its own (rails). Nothing depends on the order in which the agents report.

mod walk;

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Chip, Inventory};

use crate::order::{Place, Topology, numeric};

/// What stands for a domain that is not known: behind every name that a switch has.
const UNKNOWN: &str = "~";

// === impl Topology ===

impl Topology {
    /// The places of these servers, each given by its id and its hardware.
    pub fn of<'a>(nodes: impl IntoIterator<Item = (&'a str, &'a Inventory)>) -> Self {
        let mut inventories: BTreeMap<&str, Option<&Inventory>> = BTreeMap::new();
        for (server, inventory) in nodes {
            // Two nodes under one id: neither is believed, or the last one to come would count.
            inventories
                .entry(server)
                .and_modify(|known| *known = known.filter(|known| *known == inventory))
                .or_insert(Some(inventory));
        }
        inventories.retain(|server, _| !server.is_empty());
        let nodes =
            || inventories.iter().filter_map(|(server, inventory)| Some((*server, (*inventory)?)));
        let domains = Domains::of(nodes().map(|(_, inventory)| inventory));
        let servers = nodes().map(|(server, inventory)| {
            let in_super_pod = super_pod(inventory);
            let path = match in_super_pod {
                Some((_, index)) => vec![index.to_string()],
                None => path(inventory, &domains),
            };
            let super_pod = in_super_pod.map(|(id, _)| id.to_string());
            (server.to_owned(), Place { super_pod, path, devices: walk::places(inventory) })
        });
        Self { servers: servers.collect() }
    }
}

/// The super-pod and the server's number in it, if its devices are of a kind that uses it.
fn super_pod(inventory: &Inventory) -> Option<(u32, u32)> {
    let uses = |chip: Chip| matches!(chip, Chip::AscendA3 | Chip::AscendA5);
    let uses = inventory.devices.iter().any(|device| uses(device.chip));
    let place = inventory.super_pod.filter(|place| uses && place.id != u32::MAX)?;
    Some((place.id, place.server_index))
}

/// From the widest domain to the narrowest; empty if nothing is known.
fn path(inventory: &Inventory, domains: &Domains<'_>) -> Vec<String> {
    let fabrics = inventory.devices.iter().filter_map(|device| device.fabric.as_ref());
    // A GPU outside of any domain has zeros.
    let fabrics = fabrics.filter(|fabric| fabric.cluster_uuid.contains(|c| c != '0' && c != '-'));
    let fabric = fabrics.map(|fabric| (fabric.cluster_uuid.as_str(), fabric.clique_id)).min();
    let leaf = first(switches(inventory));
    if fabric.is_none() && leaf.is_none() {
        return Vec::new();
    }
    let unknown = || UNKNOWN.to_owned();
    vec![
        fabric.map_or_else(unknown, |(cluster, _)| cluster.to_owned()),
        fabric.map_or_else(unknown, |(_, clique)| clique.to_string()),
        leaf.and_then(|leaf| domains.name(leaf)).map_or_else(unknown, str::to_owned),
        leaf.map_or_else(unknown, str::to_owned),
    ]
}

/// The switches that the ports of a server are plugged into.
fn switches(inventory: &Inventory) -> BTreeSet<&str> {
    let neighbours = inventory.devices.iter().filter_map(|device| device.neighbour.as_ref());
    let names = neighbours.map(|neighbour| neighbour.switch.as_str());
    names.filter(|name| !name.is_empty()).collect()
}

fn first<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by(|left, right| numeric(left, right))
}

/// Leaf switches that share servers, directly or by way of others.
struct Domains<'a> {
    /// The domain of each switch, by number.
    of: BTreeMap<&'a str, usize>,
    /// The first switch of each domain.
    names: Vec<&'a str>,
}

// === impl Domains ===

impl<'a> Domains<'a> {
    fn of(inventories: impl Iterator<Item = &'a Inventory>) -> Self {
        let mut of: BTreeMap<&'a str, usize> = BTreeMap::new();
        let mut members: Vec<Vec<&'a str>> = Vec::new();
        for inventory in inventories {
            let mut home: Option<usize> = None;
            for switch in switches(inventory) {
                let theirs = *of.entry(switch).or_insert_with(|| {
                    members.push(vec![switch]);
                    members.len() - 1
                });
                let Some(ours) = home.replace(theirs).filter(|ours| *ours != theirs) else {
                    continue;
                };
                // The smaller domain joins the larger one.
                let size = |at: usize| members.get(at).map_or(0, Vec::len);
                let (from, to) =
                    if size(ours) < size(theirs) { (ours, theirs) } else { (theirs, ours) };
                let moved = members.get_mut(from).map(std::mem::take).unwrap_or_default();
                of.extend(moved.iter().map(|switch| (*switch, to)));
                if let Some(members) = members.get_mut(to) {
                    members.extend(moved);
                }
                home = Some(to);
            }
        }
        let names = members.into_iter().map(|members| first(members).unwrap_or_default());
        Self { of, names: names.collect() }
    }

    fn name(&self, switch: &str) -> Option<&'a str> {
        self.names.get(*self.of.get(switch)?).copied()
    }
}

#[cfg(test)]
mod tests;
