//! `resourcetype`: pods that need no accelerator rather go to nodes that have none.

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    snapshot::{GPU, NodeId, TaskId, at},
};

/// Pods without accelerators away from nodes that have some.
pub struct ResourceType;

impl Plugin for ResourceType {
    fn name(&self) -> &'static str {
        "resourcetype"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Static
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let (snapshot, spec) = (view.snapshot, &view.snapshot.nodes[node]);
        let npus = || {
            (0..snapshot.dimensions.len())
                .any(|i| snapshot.dimensions.is_npu(i) && at(&spec.allocatable, i) > 0.0)
        };
        let plain =
            !spec.sliced && !spec.claimed_gpus && at(&spec.allocatable, GPU) <= 0.0 && !npus();
        let cpu_only = snapshot.classes[snapshot.tasks[task].class].cpu_only;
        Some(if cpu_only && plain { score::RESOURCE_TYPE } else { 0.0 })
    }
}
