//! Zones of a node, and what pods need aligned: as agents and objects tell it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use muster_kube::Quantity;

use crate::{
    input::{Container, NodeResourceTopology, Pod, ResourceList},
    snapshot::{CPU, Dimensions, MEMORY, Vector, amount_of, at},
};

/// Where a pod says the zones that were chosen for it.
pub(super) const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";

/// How strictly a node aligns pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Not.
    None,
    /// If it can.
    BestEffort,
    /// To as few zones as could hold the request, or not at all.
    Restricted,
    /// To one zone, or not at all.
    SingleZone,
}

/// A zone.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// What pods can have of it.
    pub allocatable: Vector,
    /// What is left of it.
    pub available: Vector,
}

/// Zones of a node.
#[derive(Clone, Debug)]
pub struct Zones {
    /// How strictly it aligns.
    pub policy: Policy,
    /// Whether pods are aligned as a whole, and not container by container.
    pub by_pod: bool,
    /// The zones, by number.
    pub zones: Vec<Zone>,
    /// Dimensions that zones report.
    pub aware: Vec<usize>,
}

// === impl Zones ===

impl Zones {
    /// Zones as a node's agent tells them; none if it tells none.
    pub fn of(topology: &NodeResourceTopology, dimensions: &Dimensions) -> Option<Self> {
        let mut zones: Vec<Zone> = Vec::new();
        let mut aware: Vec<usize> = Vec::new();
        for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
            let mut allocatable = dimensions.zero();
            let mut available = dimensions.zero();
            for resource in &zone.resources {
                let Some(i) = dimensions.find(&resource.name) else { continue };
                let amount =
                    |quantity: Quantity| amount_of(dimensions, &resource.name, i, quantity);
                if let (Some(all), Some(left)) = (allocatable.get_mut(i), available.get_mut(i)) {
                    *all += amount(resource.allocatable);
                    *left += amount(resource.available);
                }
                aware.push(i);
            }
            zones.push(Zone { name: zone.name.clone(), allocatable, available });
        }
        if zones.is_empty() {
            return None;
        }
        zones.sort_by_key(|zone| {
            let digits =
                zone.name.len() - zone.name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let number =
                zone.name.get(zone.name.len() - digits..).and_then(|text| text.parse::<u64>().ok());
            (number.is_none(), number, zone.name.clone())
        });
        aware.sort_unstable();
        aware.dedup();
        let (policy, by_pod) = policy(topology);
        Some(Self { policy, by_pod, zones, aware })
    }

    /// The zones of a pod as its annotation says them; none if it has none.
    pub(super) fn mark(
        &self,
        placement: &[(usize, usize, f64)],
        dimensions: &Dimensions,
    ) -> Option<String> {
        let mut parts: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
        for (zone, i, amount) in placement {
            *parts.entry(*zone).or_default().entry(*i).or_default() += amount;
        }
        // Amounts are in the unit of their dimension: whole ones, or thousandths.
        let written = |(i, amount): (usize, f64)| {
            let name = dimensions.name(i);
            let one = amount_of(dimensions, name, i, Quantity::from_units(1));
            let unit = if one > 1.0 { "m" } else { "" };
            (name.to_owned(), format!("{amount:.0}{unit}"))
        };
        let part = |(zone, amounts): (usize, BTreeMap<usize, f64>)| {
            let zone = &self.zones.get(zone)?.name;
            let amount: BTreeMap<String, String> = amounts.into_iter().map(written).collect();
            Some(json!({"zone": zone, "amount": amount}))
        };
        let parts: Vec<_> = parts.into_iter().filter_map(part).collect();
        (!parts.is_empty()).then(|| serde_json::Value::from(parts).to_string())
    }
}

fn policy(topology: &NodeResourceTopology) -> (Policy, bool) {
    let attribute = |name: &str| {
        topology
            .attributes
            .iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| attribute.value.as_str())
    };
    if let Some(policy) = attribute("topologyManagerPolicy") {
        let policy = match policy {
            "single-numa-node" => Policy::SingleZone,
            "restricted" => Policy::Restricted,
            "best-effort" => Policy::BestEffort,
            _ => Policy::None,
        };
        return (policy, attribute("topologyManagerScope") == Some("pod"));
    }
    match topology.topology_policies.first().map(String::as_str) {
        Some("SingleNUMANodePodLevel") => (Policy::SingleZone, true),
        Some("SingleNUMANodeContainerLevel") => (Policy::SingleZone, false),
        Some("RestrictedPodLevel") => (Policy::Restricted, true),
        Some("Restricted" | "RestrictedContainerLevel") => (Policy::Restricted, false),
        Some("BestEffortPodLevel") => (Policy::BestEffort, true),
        Some("BestEffort" | "BestEffortContainerLevel") => (Policy::BestEffort, false),
        _ => (Policy::None, false),
    }
}

/// Zones that a pod's annotations say it has on a node: zone, dimension, amount. `text` gives an annotation's value. One that
/// names a zone which the node does not have says nothing.
pub fn placement_of<'a>(
    text: impl Fn(&str) -> Option<&'a str>,
    dimensions: &Dimensions,
    zones: Option<&Zones>,
) -> Vec<(usize, usize, f64)> {
    #[derive(Deserialize)]
    struct Part {
        zone: String,
        #[serde(default)]
        amount: BTreeMap<String, Quantity>,
    }
    let Some(zones) = zones else { return Vec::new() };
    let read = |name: &str| {
        let parts: Vec<Part> = serde_json::from_str(text(name)?).ok()?;
        (!parts.is_empty()).then_some(parts)
    };
    let marks = read("kai.scheduler/numa-placement-observed").or_else(|| read(PREDICTED));
    let mut placement = Vec::new();
    for part in marks.unwrap_or_default() {
        let Some(zone) = zones.zones.iter().position(|zone| zone.name == part.zone) else {
            return Vec::new();
        };
        for (name, amount) in part.amount {
            if let Some(i) = dimensions.find(&name) {
                placement.push((zone, i, amount_of(dimensions, &name, i, amount)));
            }
        }
    }
    placement.sort_by_key(|(zone, i, _)| (*zone, *i));
    placement
}

/// Whether a container runs before the others, and what it needs by dimension.
pub type ContainerNeeds = (bool, Vec<(usize, f64)>);

/// What containers of a pod need aligned, and whether their requests are their limits. Processors count where whole ones
/// are asked for, and only then.
pub fn needs_of(pod: &Pod, dimensions: &Dimensions) -> (Vec<ContainerNeeds>, bool) {
    let containers = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let guaranteed = containers().count() > 0 && containers().all(is_guaranteed);
    let needs = |container: &Container| {
        let mut needs = amounts(&container.resources.requests, dimensions);
        let whole = |milli: f64| milli % 1000.0 == 0.0;
        needs.retain(|(i, amount)| *i != CPU || (guaranteed && whole(*amount)));
        needs
    };
    let init = pod.spec.init_containers.iter().map(|it| (it.restart_policy != "Always", needs(it)));
    (init.chain(pod.spec.containers.iter().map(|it| (false, needs(it)))).collect(), guaranteed)
}

fn amounts(list: &ResourceList, dimensions: &Dimensions) -> Vec<(usize, f64)> {
    list.iter()
        .filter_map(|(name, amount)| {
            let i = dimensions.find(name)?;
            Some((i, amount_of(dimensions, name, i, amount)))
        })
        .collect()
}

fn is_guaranteed(container: &Container) -> bool {
    let resources = &container.resources;
    ["cpu", "memory"].iter().all(|name| {
        let limit = resources.limits.get(name);
        limit.is_some_and(|limit| {
            !limit.is_zero() && resources.requests.get(name).is_none_or(|asked| asked == limit)
        })
    })
}

/// Whether a dimension is aligned for guaranteed pods only.
pub(super) fn is_gated(dimensions: &Dimensions, i: usize) -> bool {
    i == CPU || i == MEMORY || dimensions.name(i).starts_with("hugepages-")
}

/// The most that `width` zones could have of a dimension, for each width.
pub(super) fn widths(zones: &Zones, i: usize) -> Vec<f64> {
    let mut amounts: Vec<f64> = zones.zones.iter().map(|zone| at(&zone.allocatable, i)).collect();
    amounts.sort_by(|a, b| b.total_cmp(a));
    amounts
        .into_iter()
        .scan(0.0, |sum, amount| {
            *sum += amount;
            Some(*sum)
        })
        .collect()
}
