//! `numa`: pods get their devices, processors and memory from as few zones of a node as its kubelet demands.
//!
//! Nodes tell their zones in NodeResourceTopology objects. What a zone has left is what it offers, less what pods on
//! the node have of it; that is known of pods that were placed by this plugin, and of those whose marks say it.

mod fit;
mod read;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config::plugin,
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    reason::NodeRefusal,
    snapshot::{Class, ClassId, NodeId, TaskId},
};

use self::zones::{Available, Policy};

pub use self::{
    read::{needs_of, placement_of},
    zones::Zones,
};

/// A zone, a dimension, and how much of it.
pub type Piece = (usize, usize, f64);

/// Zones of nodes.
pub struct Numa {
    /// Resources that are not looked at.
    ignored: BTreeSet<String>,
    /// Whether what zones have left is computed from pods; otherwise nodes are believed.
    reconstruct: bool,
    /// The most zones that a node has.
    most_zones: usize,
}

/// How a pod's containers are placed on a node.
struct Plan {
    pieces: Vec<Piece>,
    /// How many zones they are from.
    span: usize,
}

// === impl Numa ===

impl Numa {
    /// With `ignoreList` and `reconstructAvailable`.
    pub fn new(arguments: &BTreeMap<String, String>) -> Self {
        let list = arguments.get("ignoreList").map(String::as_str).unwrap_or_default();
        Self {
            ignored: list
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            reconstruct: arguments
                .get("reconstructAvailable")
                .is_none_or(|text| text.trim() != "false"),
            most_zones: 1,
        }
    }

    /// How a pod would be placed; none if the node's kubelet would refuse it.
    fn plan(&self, view: View<'_>, task: TaskId, node: NodeId, zones: &Zones) -> Option<Plan> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let mut left = self.left(view, task, node, zones);
        let mut pieces: Vec<Piece> = Vec::new();
        for (runs_before, needs) in self.needs(view, class, zones) {
            let placed = fit::place(zones, &left, &needs)?;
            // What runs before the others gives back what it had.
            if !runs_before {
                left.take(&placed);
                pieces.extend(placed);
            }
        }
        let used: BTreeSet<usize> = pieces.iter().map(|(zone, ..)| *zone).collect();
        Some(Plan { pieces, span: used.len().max(1) })
    }

    /// What has to be placed together, in order: of each container, or of the whole pod.
    fn needs(
        &self,
        view: View<'_>,
        class: &Class,
        zones: &Zones,
    ) -> Vec<(bool, Vec<(usize, f64)>)> {
        let counts = |dimension: usize| {
            zones.reports(dimension)
                && !self.ignored.contains(view.snapshot.dimensions.name(dimension))
        };
        let of = |needs: &[(usize, f64)]| -> Vec<(usize, f64)> {
            needs
                .iter()
                .copied()
                .filter(|(dimension, amount)| *amount > 0.0 && counts(*dimension))
                .collect()
        };
        let each = class.containers.iter().map(|container| (container.init, of(&container.needs)));
        if !zones.pod_scope {
            return each.filter(|(_, needs)| !needs.is_empty()).collect();
        }
        let (mut together, mut before) = (BTreeMap::new(), BTreeMap::<usize, f64>::new());
        for (init, needs) in each {
            for (dimension, amount) in needs {
                if init {
                    let most = before.entry(dimension).or_insert(amount);
                    *most = most.max(amount);
                } else {
                    *together.entry(dimension).or_insert(0.0) += amount;
                }
            }
        }
        for (dimension, amount) in before {
            let most = together.entry(dimension).or_insert(amount);
            *most = most.max(amount);
        }
        if together.is_empty() { Vec::new() } else { vec![(false, together.into_iter().collect())] }
    }

    /// What a node's zones have left for a pod.
    fn left(&self, view: View<'_>, task: TaskId, node: NodeId, zones: &Zones) -> Available {
        let mut left = zones.available(self.reconstruct);
        for pod in view.state.nodes[node].pods.iter().filter(|pod| pod.task != task) {
            let (known, state) = (&view.snapshot.tasks[pod.task], &view.state.tasks[pod.task]);
            let counted = !self.reconstruct && known.status.is_active() && known.node == Some(node);
            match (pod.status.is_active(), counted) {
                (true, false) => left.take(&state.numa),
                (false, true) => left.give(&known.numa),
                _ => {}
            }
        }
        left
    }

    /// Whether anything of a class is placed by zones.
    fn concerns(&self, view: View<'_>, class: &Class, zones: &Zones) -> bool {
        zones.policy != Policy::None && !self.needs(view, class, zones).is_empty()
    }
}

impl Plugin for Numa {
    fn name(&self) -> &'static str {
        plugin::NUMA
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Predicate, Point::NodeOrder, Point::NumaPlacement]
    }

    fn open(&mut self, view: View<'_>) {
        let counts = view.snapshot.nodes.iter().filter_map(|node| Some(node.numa.as_ref()?.len()));
        self.most_zones = counts.max().unwrap_or(1).max(1);
    }

    fn predicate_scope(&self, _: View<'_>, _: ClassId) -> Scope {
        Scope::Node
    }

    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        let Some(zones) = view.snapshot.nodes[node].numa.as_deref() else { return Ok(()) };
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let demands = matches!(zones.policy, Policy::Single | Policy::Restricted);
        if !demands
            || !self.concerns(view, class, zones)
            || self.plan(view, task, node, zones).is_some()
        {
            return Ok(());
        }
        Err(NodeRefusal::Numa)
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let span = match view.snapshot.nodes[node].numa.as_deref() {
            None => self.most_zones,
            Some(zones) if self.concerns(view, class, zones) => {
                self.plan(view, task, node, zones).map_or(zones.len(), |plan| plan.span)
            }
            Some(zones) => zones.len(),
        };
        Some(score::NUMA / span.max(1) as f64)
    }

    fn numa_placement(&self, view: View<'_>, task: TaskId, node: NodeId) -> Vec<Piece> {
        let Some(zones) = view.snapshot.nodes[node].numa.as_deref() else { return Vec::new() };
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        if !self.concerns(view, class, zones) {
            return Vec::new();
        }
        self.plan(view, task, node, zones).map(|plan| plan.pieces).unwrap_or_default()
    }
}
