//! `nodeavailability`: nodes that have room now before those that will have it.

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    snapshot::{NodeId, TaskId},
};

/// Nodes that have room now first.
pub struct NodeAvailability;

impl Plugin for NodeAvailability {
    fn name(&self) -> &'static str {
        "nodeavailability"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let fits = view.state.nodes[node].fits_idle(class, &view.snapshot.nodes[node]);
        Some(if fits { score::AVAILABILITY } else { 0.0 })
    }
}
