//! Whether pods fit on nodes beside what is there, by plain sums: asked when a nomination comes true.

use std::collections::{BTreeMap, BTreeSet};

use muster_kube::Quantity;
use muster_scheduler::input::{Input, Node, Phase, Pod};

use crate::in_flight::InFlightBindings;
use crate::nomination::Nomination;
use crate::object::{Name, name_of};
use crate::reservation::share;
use crate::reservation::{SharedDevice, groups_of};

/// Devices that are shared rather than others.
const NVIDIA: &str = "nvidia.com/gpu";

/// Whether all pods of a nomination fit.
///
/// `unheld` are devices of nodes that pods will share and that nothing holds yet.
pub(crate) fn fits(
    input: &Input,
    in_flight: &InFlightBindings,
    nomination: &Nomination,
    unheld: &BTreeMap<Box<str>, i128>,
) -> bool {
    let nodes: BTreeSet<&str> =
        nomination.places.values().map(|place| place.node.as_str()).collect();
    let mut used: BTreeMap<&str, BTreeMap<&str, i128>> = BTreeMap::new();
    for pod in &input.pods {
        if matches!(pod.status.phase, Phase::Succeeded | Phase::Failed) {
            continue;
        }
        let name = name_of(&pod.metadata);
        let node = place_of(pod, &name, in_flight, nomination);
        if let Some(node) = node.and_then(|node| nodes.get(node)) {
            let sums = used.entry(node).or_default();
            for (resource, amount) in requests(pod) {
                *sums.entry(resource).or_default() += amount;
            }
        }
    }
    for node in input.nodes.iter() {
        let name = node.metadata.name.as_str();
        let count = unheld.get(name).filter(|_| nodes.contains(name));
        if let (Some(count), Some(device)) = (count, device_of(node)) {
            *used.entry(name).or_default().entry(device).or_default() += count * 1000;
        }
    }
    input.nodes.iter().filter(|node| nodes.contains(node.metadata.name.as_str())).all(|node| {
        let Some(sums) = used.get(node.metadata.name.as_str()) else { return true };
        sums.iter().all(|(resource, sum)| {
            let has = node.status.allocatable.get(resource).map_or(0, milli);
            // What the node does not say is not looked at.
            node.status.allocatable.get(resource).is_none() || *sum <= has
        })
    })
}

/// Whether every device that pods of a nomination are to share has room for their parts, beside those that others have of it, also
/// while they leave.
pub(crate) fn parts_fit(
    input: &Input,
    in_flight: &InFlightBindings,
    nomination: &Nomination,
) -> bool {
    let spots = |node: &str, groups: &[String]| -> Vec<SharedDevice> {
        groups.iter().map(|group| SharedDevice::new(node, group)).collect()
    };
    let promised =
        nomination.places.values().flat_map(|place| spots(&place.node, &place.gpu_groups));
    let mut used: BTreeMap<SharedDevice, i64> = promised.map(|spot| (spot, 0)).collect();
    if used.is_empty() {
        return true;
    }
    let nodes: BTreeMap<&str, &Node> =
        input.nodes.iter().map(|node| (node.metadata.name.as_str(), node)).collect();
    for pod in &input.pods {
        if matches!(pod.status.phase, Phase::Succeeded | Phase::Failed) {
            continue;
        }
        let name = name_of(&pod.metadata);
        let bind = in_flight.of(&name).filter(|bind| bind.uid == pod.metadata.uid);
        let spots = match (nomination.places.get(&name), bind) {
            _ if !pod.spec.node_name.is_empty() => {
                groups_of(pod).map(|group| SharedDevice::new(&pod.spec.node_name, group)).collect()
            }
            (Some(place), _) => spots(&place.node, &place.gpu_groups),
            (None, Some(bind)) => spots(&bind.node, &bind.gpu_groups),
            (None, None) => continue,
        };
        for spot in spots {
            if let (Some(sum), Some(node)) = (used.get_mut(&spot), nodes.get(&*spot.node)) {
                *sum = sum.saturating_add(share::mebibytes(pod, node));
            }
        }
    }
    used.iter().all(|(spot, sum)| *sum <= share::device_memory(nodes.get(&*spot.node).copied()))
}

/// The resource whose devices pods of a node can share.
pub(crate) fn device_of(node: &Node) -> Option<&str> {
    let shared = |(name, amount): &(&str, Quantity)| name.ends_with("gpu") && amount.units() > 0;
    let mut all = node.status.allocatable.iter().filter(shared).map(|(name, _)| name);
    let first = all.next()?;
    Some(if first == NVIDIA { first } else { all.find(|name| *name == NVIDIA).unwrap_or(first) })
}

fn place_of<'a>(
    pod: &'a Pod,
    name: &Name,
    in_flight: &'a InFlightBindings,
    nomination: &'a Nomination,
) -> Option<&'a str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let promised = nomination.places.get(name).map(|place| place.node.as_str());
    promised.or_else(|| in_flight.node(name, &pod.metadata.uid))
}

/// What the containers of a pod ask for together; those that run first count if they ask for more.
fn requests(pod: &Pod) -> BTreeMap<&str, i128> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for container in &pod.spec.containers {
        for (resource, amount) in container.resources.requests.iter() {
            *sums.entry(resource).or_default() += milli(amount);
        }
    }
    for container in &pod.spec.init_containers {
        for (resource, amount) in container.resources.requests.iter() {
            let sum = sums.entry(resource).or_default();
            *sum = (*sum).max(milli(amount));
        }
    }
    sums
}

fn milli(amount: Quantity) -> i128 {
    i128::from(amount.milli())
}
