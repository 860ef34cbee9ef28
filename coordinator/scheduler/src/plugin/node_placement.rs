//! `nodeplacement`: full nodes first (`binpack`), or empty ones (`spread`), by what the pod needs most.
//!
//! The score depends on the node alone: what is free of it, against the most that any node has. Scores of a set of
//! nodes are in the same order as if they were stretched over that set.

use std::collections::BTreeMap;

use crate::{
    framework::{Plugin, Point, Scope, View},
    plugin::score,
    snapshot::{CPU, GPU, NodeId, TaskId, at},
};

/// Full nodes first, or empty ones.
pub struct NodePlacement {
    gpu_spread: bool,
    cpu_spread: bool,
}

// === impl NodePlacement ===

impl NodePlacement {
    /// With `gpu` and `cpu`, each `binpack` or `spread`.
    pub fn new(arguments: &BTreeMap<String, String>) -> Self {
        let spread = |name: &str| arguments.get(name).is_some_and(|value| value == "spread");
        Self { gpu_spread: spread("gpu"), cpu_spread: spread("cpu") }
    }
}

impl Plugin for NodePlacement {
    fn name(&self) -> &'static str {
        "nodeplacement"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Node
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let (spec, i) = (&view.snapshot.nodes[node], class.primary);
        let (all, free) = (at(&spec.allocatable, i), view.state.nodes[node].free(i));
        let spread = if i == CPU { self.cpu_spread } else { self.gpu_spread };
        if spread {
            let count = if i == GPU { spec.gpu_count as f64 } else { all };
            return Some(if count > 0.0 { free / count } else { 0.0 });
        }
        let most = at(&view.snapshot.largest, i);
        if all <= 0.0 || most <= 0.0 {
            return Some(0.0);
        }
        Some(score::DENSITY * (1.0 - free / most))
    }
}
