//! `gpupack` and `gpuspread`: the fullest shared device that has room first, or the emptiest.

use crate::{
    framework::{Plugin, Point, View},
    snapshot::{GroupId, NodeId, TaskId},
};

/// The fullest shared device first.
pub struct GpuPack;

/// The emptiest first, a whole one before all.
pub struct GpuSpread;

impl Plugin for GpuPack {
    fn name(&self) -> &'static str {
        "gpupack"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::GpuOrder]
    }

    fn gpu_order(
        &self,
        view: View<'_>,
        _: TaskId,
        node: NodeId,
        group: Option<GroupId>,
    ) -> Option<f64> {
        match group {
            Some(group) => used(view, node, group),
            None => Some(0.0),
        }
    }
}

impl Plugin for GpuSpread {
    fn name(&self) -> &'static str {
        "gpuspread"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::GpuOrder]
    }

    fn gpu_order(
        &self,
        view: View<'_>,
        _: TaskId,
        node: NodeId,
        group: Option<GroupId>,
    ) -> Option<f64> {
        match group {
            Some(group) => used(view, node, group).map(|used| 1.0 - used),
            None => Some(1.0),
        }
    }
}

/// How much of a device is used; none where nodes say too little about their devices.
fn used(view: View<'_>, node: NodeId, group: GroupId) -> Option<f64> {
    let memory = view.snapshot.nodes[node].gpu_memory;
    if memory < 100 {
        return None;
    }
    let device = view.state.nodes[node].shared.iter().find(|device| device.group == group)?;
    Some(device.used as f64 / memory as f64)
}
