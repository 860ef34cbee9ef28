//! `numa`: pods within zones of a node, as the node's kubelet will want it.
//!
//! A node that aligns strictly takes a pod only if zones can hold it; among nodes, those are better where it would span
//! fewer zones. What zones have left is reported, or worked out from where pods are (`reconstructAvailable`).

mod fit;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    reason::NodeRefusal,
    snapshot::{CPU, Class, ClassId, NodeId, Table, TaskId, Vector, at},
};

use self::fit::{Need, Places};
use self::zones::PREDICTED;
pub use self::zones::{Policy, Zone, Zones, needs_of, placement_of};

/// Pods within zones of a node.
pub struct Numa {
    ignored: BTreeSet<String>,
    reconstruct: bool,
    most_zones: usize,
    /// Dimensions of devices that any node aligns.
    devices: BTreeSet<usize>,
    available: Table<NodeId, Vec<Vector>>,
}

// === impl Numa ===

impl Numa {
    /// With `ignoreList` and `reconstructAvailable`.
    pub fn new(arguments: &BTreeMap<String, String>) -> Self {
        let ignored = arguments.get("ignoreList").map(String::as_str).unwrap_or("");
        Self {
            ignored: ignored
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            reconstruct: arguments.get("reconstructAvailable").is_none_or(|text| text != "false"),
            most_zones: 0,
            devices: BTreeSet::new(),
            available: Table::default(),
        }
    }

    /// Dimensions that a node aligns for a class; none if it does not align it at all.
    fn aware(&self, view: View<'_>, class: &Class, zones: &Zones) -> Option<Vec<usize>> {
        let dimensions = &view.snapshot.dimensions;
        let mut aware = zones.aware.clone();
        aware.retain(|i| !self.ignored.contains(dimensions.name(*i)));
        let device = |i: &usize| !zones::is_gated(dimensions, *i) && at(&class.request, *i) > 0.0;
        if !class.guaranteed {
            if !aware.iter().any(device) {
                return None;
            }
            aware.retain(|i| !zones::is_gated(dimensions, *i));
        }
        Some(aware)
    }

    /// Where a pod of a class would be on a node. `Ok(None)` if the node does not align it.
    fn place(
        &self,
        view: View<'_>,
        class: &Class,
        node: NodeId,
    ) -> Result<Option<Places>, NodeRefusal> {
        let Some(zones) = view.snapshot.nodes[node].numa.as_deref() else { return Ok(None) };
        if zones.policy == Policy::None {
            return Ok(None);
        }
        let Some(aware) = self.aware(view, class, zones) else { return Ok(None) };
        let only = |needs: &Need| -> Need {
            needs.iter().copied().filter(|(i, amount)| *amount > 0.0 && aware.contains(i)).collect()
        };
        let (together, before): (Vec<Need>, Vec<Need>) = if zones.by_pod {
            (vec![only(&whole(class))], Vec::new())
        } else {
            let part = |init: bool| {
                class
                    .containers
                    .iter()
                    .filter(move |it| it.init == init)
                    .map(|it| only(&it.needs))
                    .collect()
            };
            (part(false), part(true))
        };
        let available = self.available.get(node).map_or(&[][..], Vec::as_slice);
        fit::align(zones, available, &together, &before).map(Some).ok_or(NodeRefusal::Numa)
    }

    fn shift(&mut self, view: View<'_>, task: TaskId, sign: f64) {
        let state = &view.state.tasks[task];
        let Some(node) = state.node else { return };
        if self.available.get(node).is_none() {
            return;
        }
        let zones = &mut self.available[node];
        for (zone, i, amount) in &state.numa {
            if let Some(place) = zones.get_mut(*zone).and_then(|zone| zone.get_mut(*i)) {
                *place -= amount * sign;
            }
        }
    }
}

/// What a pod needs as a whole: its request, processors as its containers need them aligned.
fn whole(class: &Class) -> Need {
    let (mut sum, mut peak) = (0.0_f64, 0.0_f64);
    for container in &class.containers {
        let cpu: f64 =
            container.needs.iter().filter(|(i, _)| *i == CPU).map(|(_, amount)| amount).sum();
        if container.init {
            peak = peak.max(sum + cpu);
        } else {
            sum += cpu;
        }
    }
    let request = class.request.iter().copied().enumerate();
    request.map(|(i, amount)| (i, if i == CPU { sum.max(peak) } else { amount })).collect()
}

impl Plugin for Numa {
    fn name(&self) -> &'static str {
        "numa"
    }

    fn points(&self) -> &'static [Point] {
        &[
            Point::Predicate,
            Point::NodeOrder,
            Point::NumaPlacement,
            Point::BindRequestMutate,
            Point::Event,
        ]
    }

    fn open(&mut self, view: View<'_>) {
        let of = |node: &crate::snapshot::Node| -> Vec<Vector> {
            let zones = node.numa.iter().flat_map(|zones| &zones.zones);
            let pick = |zone: &Zone| {
                if self.reconstruct { zone.allocatable.clone() } else { zone.available.clone() }
            };
            zones.map(pick).collect()
        };
        self.available = view.snapshot.nodes.iter().map(of).collect();
        self.most_zones = self.available.iter().map(Vec::len).max().unwrap_or(0);
        let zones = view.snapshot.nodes.iter().filter_map(|node| node.numa.as_deref());
        let aware =
            zones.filter(|zones| zones.policy != Policy::None).flat_map(|zones| &zones.aware);
        let dimensions = &view.snapshot.dimensions;
        self.devices = aware
            .copied()
            .filter(|i| {
                !zones::is_gated(dimensions, *i) && !self.ignored.contains(dimensions.name(*i))
            })
            .collect();
        if self.reconstruct {
            for (id, task) in view.state.tasks.entries() {
                if task.status.is_active() {
                    self.shift(view, id, 1.0);
                }
            }
        }
    }

    /// The pod keeps the zones that were chosen for it: later cycles count them as taken.
    fn bind_request(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
        let placement = &view.state.tasks[task].numa;
        let zones = view.snapshot.nodes[node].numa.as_deref();
        if let Some(mark) = zones.and_then(|zones| zones.mark(placement, &view.snapshot.dimensions))
        {
            annotations.insert(PREDICTED.to_owned(), mark);
        }
    }

    fn later_bind_request(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
        self.bind_request(view, task, node, annotations);
    }

    fn predicate_scope(&self, _: View<'_>, _: ClassId) -> Scope {
        Scope::Node
    }

    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let strict = view.snapshot.nodes[node]
            .numa
            .as_ref()
            .is_some_and(|zones| matches!(zones.policy, Policy::SingleZone | Policy::Restricted));
        if strict { self.place(view, class, node).map(|_| ()) } else { Ok(()) }
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let zones = view.snapshot.nodes[node].numa.as_deref();
        let wants =
            || class.guaranteed || self.devices.iter().any(|i| at(&class.request, *i) > 0.0);
        if self.most_zones == 0 || !wants() {
            return Some(0.0);
        }
        let span = match (zones, self.place(view, class, node)) {
            (None, _) => self.most_zones,
            (Some(zones), Ok(None)) => zones.zones.len(),
            (Some(_), Ok(Some(places))) => {
                places.keys().map(|(zone, _)| zone).collect::<BTreeSet<_>>().len().max(1)
            }
            (Some(_), Err(_)) => return Some(0.0),
        };
        Some(score::NUMA / span.max(1) as f64)
    }

    fn numa_placement(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Vec<(usize, usize, f64)> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let places = self.place(view, class, node).ok().flatten().unwrap_or_default();
        places.into_iter().map(|((zone, i), amount)| (zone, i, amount)).collect()
    }

    fn allocated(&mut self, view: View<'_>, task: TaskId) {
        self.shift(view, task, 1.0);
    }

    fn deallocated(&mut self, view: View<'_>, task: TaskId) {
        self.shift(view, task, -1.0);
    }
}
