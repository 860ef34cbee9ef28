//! Zones of a node, as its agent tells them.

use crate::{
    input::NodeResourceTopology,
    snapshot::{Dimensions, amount_of},
};

use super::{Piece, read::zone_number};

/// More zones than this are not looked at: no node has them.
pub(super) const MOST_ZONES: usize = 16;

/// What a kubelet demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing.
    #[default]
    None,
    /// As few zones as there happen to be.
    BestEffort,
    /// As few zones as there could be.
    Restricted,
    /// One.
    Single,
}

/// Zones of a node.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    /// What its kubelet demands.
    pub policy: Policy,
    /// Whether it looks at whole pods; otherwise at containers.
    pub pod_scope: bool,
    zones: Vec<Zone>,
}

#[derive(Clone, Debug, Default)]
struct Zone {
    /// Its number, by which marks name it.
    number: usize,
    /// Dimension, what there is for pods, and what is free.
    has: Vec<(usize, f64, f64)>,
}

/// What zones have left: zone by zone, dimension and amount.
#[derive(Clone, Debug, Default)]
pub(super) struct Available(Vec<(usize, Vec<(usize, f64)>)>);

// === impl Zones ===

impl Zones {
    /// Zones as a node's agent tells them.
    pub fn of(topology: &NodeResourceTopology, dimensions: &Dimensions) -> Self {
        let mut zones: Vec<Zone> = topology
            .zones
            .iter()
            .filter(|zone| zone.kind == "Node")
            .enumerate()
            .map(|(at, zone)| {
                let has = zone.resources.iter().filter_map(|resource| {
                    let index = dimensions.find(&resource.name)?;
                    let read = |amount| amount_of(dimensions, &resource.name, index, amount);
                    Some((index, read(resource.allocatable), read(resource.available)))
                });
                Zone { number: zone_number(&zone.name).unwrap_or(at), has: has.collect() }
            })
            .collect();
        zones.sort_by_key(|zone| zone.number);
        zones.truncate(MOST_ZONES);
        let (policy, pod_scope) = demands(topology);
        Self { policy, pod_scope, zones }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Whether any zone says what it has of a dimension.
    pub(super) fn reports(&self, dimension: usize) -> bool {
        self.zones.iter().any(|zone| zone.has.iter().any(|(index, ..)| *index == dimension))
    }

    /// How many zones an amount needs at least, were all of them empty; none if all are not enough.
    pub(super) fn width(&self, dimension: usize, amount: f64) -> Option<usize> {
        let of = |zone: &Zone| {
            zone.has.iter().find(|(index, ..)| *index == dimension).map_or(0.0, |has| has.1)
        };
        let mut sizes: Vec<f64> = self.zones.iter().map(of).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let mut sum = 0.0;
        sizes
            .iter()
            .position(|size| {
                sum += size;
                sum >= amount
            })
            .map(|at| at + 1)
    }

    /// What zones have before anything is taken: all of it, or what the node says is free.
    pub(super) fn available(&self, all: bool) -> Available {
        let amounts = |zone: &Zone| {
            zone.has
                .iter()
                .map(|(index, allocatable, free)| (*index, if all { *allocatable } else { *free }))
                .collect()
        };
        Available(self.zones.iter().map(|zone| (zone.number, amounts(zone))).collect())
    }
}

// === impl Available ===

impl Available {
    /// Numbers of zones, in order.
    pub(super) fn zones(&self) -> Vec<usize> {
        self.0.iter().map(|(number, _)| *number).collect()
    }

    /// What a zone has of a dimension.
    pub(super) fn of(&self, zone: usize, dimension: usize) -> f64 {
        let zone = self.0.iter().find(|(number, _)| *number == zone);
        let has = zone.and_then(|(_, has)| has.iter().find(|(index, _)| *index == dimension));
        has.map_or(0.0, |(_, amount)| *amount)
    }

    /// Takes pieces away.
    pub(super) fn take(&mut self, pieces: &[Piece]) {
        self.shift(pieces, -1.0);
    }

    /// Gives pieces back.
    pub(super) fn give(&mut self, pieces: &[Piece]) {
        self.shift(pieces, 1.0);
    }

    fn shift(&mut self, pieces: &[Piece], by: f64) {
        for (zone, dimension, amount) in pieces {
            let zone = self.0.iter_mut().find(|(number, _)| number == zone);
            let has =
                zone.and_then(|(_, has)| has.iter_mut().find(|(index, _)| index == dimension));
            if let Some((_, left)) = has {
                *left += by * amount;
            }
        }
    }
}

/// What a kubelet demands, and of what. The older way says both in one word.
fn demands(topology: &NodeResourceTopology) -> (Policy, bool) {
    let attribute = |name: &str| {
        topology
            .attributes
            .iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| attribute.value.as_str())
    };
    let old = topology.topology_policies.first().map(String::as_str).unwrap_or_default();
    let policy = match attribute("topologyManagerPolicy") {
        Some("single-numa-node") => Policy::Single,
        Some("restricted") => Policy::Restricted,
        Some("best-effort") => Policy::BestEffort,
        Some(_) => Policy::None,
        None if old.starts_with("SingleNUMANode") => Policy::Single,
        None if old.starts_with("Restricted") => Policy::Restricted,
        None if old.starts_with("BestEffort") => Policy::BestEffort,
        None => Policy::None,
    };
    let pod_scope = match attribute("topologyManagerScope") {
        Some(scope) => scope == "pod",
        None => old.ends_with("PodLevel"),
    };
    (policy, pod_scope)
}
