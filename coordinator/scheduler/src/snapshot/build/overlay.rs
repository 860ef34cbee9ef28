//! Lays over pods what no object shows yet.

use crate::{
    input::{Phase, Pod},
    snapshot::{InFlight, InFlightKind, Node, NodeId, Status, Table, Task, TaskId},
};

use super::Builder;

// === impl Builder ===

impl Builder<'_> {
    /// `pods` are the pods of the tasks, in their order, which is that of their names.
    pub(super) fn lay_overlay(
        &mut self,
        tasks: &mut Table<TaskId, Task>,
        pods: &[&Pod],
        nodes: &mut Table<NodeId, Node>,
    ) {
        let overlay = self.overlay;
        let find = |name| {
            let at = pods.binary_search_by_key(&name, |pod| pod.name()).ok()?;
            Some((TaskId(at as u32), *pods.get(at)?))
        };
        for (name, place) in &overlay.in_flight {
            let waits = |pod: &Pod| pod.spec.node_name.is_empty();
            if let Some((id, pod)) = find(*name).filter(|(_, pod)| waits(pod)) {
                self.put_in_flight(&mut tasks[id], pod, place, nodes);
            }
        }
        for (id, _) in overlay.held_out.iter().filter_map(|name| find(*name)) {
            if tasks[id].status == Status::Pending {
                tasks[id].status = Status::Gated;
            }
        }
        for (id, pod) in overlay.leaving.iter().filter_map(|name| find(*name)) {
            // Who is told by the object is counted as it says.
            tasks[id].eviction_ordered = pod.metadata.deletion_timestamp.is_none();
            release(&mut tasks[id], pod);
        }
        for (id, pod) in overlay.reserved.unused.iter().filter_map(|name| find(*name)) {
            (tasks[id].reservation, tasks[id].utility) = (false, false);
            release(&mut tasks[id], pod);
        }
        for (node, group) in &overlay.reserved.closed {
            if let Some(id) = self.node_ids.get(node).copied() {
                nodes[id].closed.push(self.group(group));
            }
        }
    }

    fn put_in_flight(
        &mut self,
        task: &mut Task,
        pod: &Pod,
        place: &InFlight<'_>,
        nodes: &Table<NodeId, Node>,
    ) {
        let node = self.node_ids.get(place.node).copied();
        if pod.status.phase == Phase::Pending && pod.metadata.deletion_timestamp.is_none() {
            match (place.kind, node) {
                (InFlightKind::Binding, _) => task.status = Status::Binding,
                (InFlightKind::Nominated, Some(_)) => task.status = Status::Pipelined,
                (InFlightKind::Nominated, None) => {}
            }
        }
        let Some(node) = node else { return };
        task.node = Some(node);
        if !place.gpu_groups.is_empty() {
            task.groups = place.gpu_groups.iter().map(|name| self.group(name)).collect();
        }
        let own = &pod.metadata.annotations;
        let text =
            |name: &str| place.annotations.get(name).map(String::as_str).or_else(|| own.get(name));
        task.numa =
            crate::plugin::numa::placement_of(text, &self.dimensions, nodes[node].numa.as_deref());
    }
}

/// A pod that is there leaves.
fn release(task: &mut Task, pod: &Pod) {
    let is_there = matches!(pod.status.phase, Phase::Pending | Phase::Running);
    if is_there && pod.metadata.deletion_timestamp.is_none() {
        task.status = Status::Releasing;
    }
}
