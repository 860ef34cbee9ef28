//! `gpusharingorder`: nodes that share a device already, if it has room.

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    snapshot::{NodeId, TaskId},
};

/// Nodes that share a device already first.
pub struct GpuSharingOrder;

impl Plugin for GpuSharingOrder {
    fn name(&self) -> &'static str {
        "gpusharingorder"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let shares = view.state.nodes[node].shares(&class.gpu, &view.snapshot.nodes[node]);
        Some(if shares { score::GPU_SHARING } else { 0.0 })
    }
}
