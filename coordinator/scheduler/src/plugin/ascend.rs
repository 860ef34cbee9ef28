//! `ascend`: pods that need part of a node's NPUs rather go where the rest stays whole.
//!
//! Devices of a node are wired in rings (four on most boards). A pod that takes as many as a broken ring has left
//! leaves whole rings to pods that need them.

use crate::{
    framework::{Plugin, Point, Scope, View},
    snapshot::{NodeId, TaskId, at},
};

/// Devices in a ring.
const RING: f64 = 4.0;
/// Less than any other score: it decides only between nodes that are alike for all else.
const WEIGHT: f64 = 0.5;

/// Rings of Ascend devices.
pub struct Ascend;

impl Plugin for Ascend {
    fn name(&self) -> &'static str {
        "ascend"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let i = class.primary;
        if !view.snapshot.dimensions.is_npu(i) {
            return Some(0.0);
        }
        let left = view.state.nodes[node].free(i) - at(&class.request, i);
        let whole = left >= 0.0 && left % RING == 0.0;
        Some(if whole { WEIGHT } else { 0.0 })
    }
}
