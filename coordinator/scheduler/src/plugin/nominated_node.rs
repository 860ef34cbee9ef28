//! `nominatednode`: the node that somebody named for a pod.

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    snapshot::{NodeId, TaskId},
};

/// The node that somebody named for a pod first.
pub struct NominatedNode;

impl Plugin for NominatedNode {
    fn name(&self) -> &'static str {
        "nominatednode"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, view: View<'_>, task: TaskId) -> Scope {
        // Nominations are the pod's, not its class's.
        if view.snapshot.tasks[task].nominated.is_some() { Scope::Session } else { Scope::Static }
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let named = view.snapshot.tasks[task].nominated == Some(node);
        Some(if named { score::NOMINATED } else { 0.0 })
    }
}
