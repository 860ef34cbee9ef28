//! `ascend`: NPUs by ring and super-pod.
//!
//! Where an agent tells how a node's NPUs are wired, a pod gets 1, 2 or 4 of one ring, or all, and rather goes where what is
//! left can be used best; which ones it gets is part of the decision. Where nobody tells, rings of four are assumed
//! and only preferred. Pods of a group rather go to one super-pod: the smallest that has room for all that wait.

use std::collections::BTreeMap;

use crate::{
    framework::{NpuPlacement, Plugin, Point, Scope, View},
    plugin::score,
    reason::NodeRefusal,
    snapshot::{Class, ClassId, NodeId, Npus, Status, TaskId, at},
    state::{Gang, NodeState},
};

/// NPUs in a ring, where nobody tells.
const RING: f64 = 4.0;
/// Less than any other score: it decides only between nodes that are alike for all else.
const GUESS: f64 = 0.5;
/// When the scheduler decided, for device plugins that have to find the pod that a request of the kubelet is for.
const DECIDED: &str = "predicate-time";

/// Rings and super-pods of NPUs.
#[derive(Default)]
pub struct Ascend {
    /// Whether any node's super-pod is known.
    super_pods: bool,
    /// How good each super-pod is for the group that is being placed: 1 is best.
    liked: BTreeMap<u32, f64>,
}

/// The NPUs of a node that a class asks for, and how many.
fn wanted<'a>(view: View<'a>, class: &Class, node: NodeId) -> Option<(&'a Npus, usize)> {
    let npus = view.snapshot.nodes[node].npus.as_deref()?;
    let known = npus.devices.iter().any(|npu| npu.dimension == class.primary);
    let count = at(&class.request, class.primary) as usize;
    (known && count > 0).then_some((npus, count))
}

/// Whether somebody else has an NPU of a node: for good, or at all.
fn has(state: &NodeState, task: TaskId, id: u32, soon: bool) -> bool {
    let others = state.pods.iter().filter(|pod| pod.task != task);
    let mut others = others.filter(|pod| !(soon && pod.status == Status::Releasing));
    others.any(|pod| pod.npus.as_ref().is_some_and(|npus| npus.contains(&id)))
}

// === impl Ascend ===

impl Ascend {
    /// NPUs for a pod: those that are free now if that can be.
    fn choose(
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<Option<(NpuPlacement, f64)>, NodeRefusal> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let Some((npus, count)) = wanted(view, class, node) else { return Ok(None) };
        let state = &view.state.nodes[node];
        // A pod that was sent away from here and comes back gets what it had.
        let before = state.find(task).and_then(|pod| pod.npus.clone());
        if let Some(devices) = before.filter(|it| it.iter().all(|id| !has(state, task, *id, true)))
        {
            return Ok(Some((NpuPlacement { devices, later: false }, 1.0)));
        }
        let choose = |soon| npus.choose(class.primary, count, &|id| has(state, task, id, soon));
        let now = choose(false).map(|choice| (choice, false));
        let (choice, later) =
            now.or_else(|| choose(true).map(|choice| (choice, true))).ok_or(NodeRefusal::Ring)?;
        Ok(Some((NpuPlacement { devices: choice.devices, later }, choice.fit)))
    }

    /// Super-pods by how good they are for a group: where its pods are; else the smallest that has room for all that
    /// wait; else those with more room first.
    fn like(&mut self, view: View<'_>, gang: &Gang) {
        self.liked.clear();
        let snapshot = view.snapshot;
        let super_pod = |node: NodeId| snapshot.nodes[node].super_pod;
        let (mut here, mut waiting, mut class) = (BTreeMap::new(), 0, None);
        for task in gang.all_tasks(snapshot, view.state) {
            let state = &view.state.tasks[task];
            match state.node.filter(|_| state.status.is_active()).and_then(super_pod) {
                Some(id) => *here.entry(id).or_insert(0_usize) += 1,
                None if state.status == Status::Pending => {
                    waiting += 1;
                    class = class.or(Some(snapshot.tasks[task].class));
                }
                None => {}
            }
        }
        let Some(class) = class.map(|class: ClassId| &snapshot.classes[class]) else { return };
        let asked = at(&class.request, class.primary);
        if !snapshot.dimensions.is_npu(class.primary) || asked <= 0.0 || waiting + here.len() < 2 {
            return;
        }
        let mut room: BTreeMap<u32, usize> = BTreeMap::new();
        for (id, node) in snapshot.nodes.entries() {
            if let Some(of) = node.super_pod {
                let pods = (view.state.nodes[id].free(class.primary) / asked).floor().max(0.0);
                *room.entry(of).or_default() += pods as usize;
            }
        }
        let mut order: Vec<(u32, usize)> = room.into_iter().collect();
        order.sort_by_key(|(id, room)| {
            let pods = here.get(id).copied().unwrap_or(0);
            let enough = *room >= waiting;
            let size = if enough { *room } else { usize::MAX - *room };
            (std::cmp::Reverse(pods), !enough, size, *id)
        });
        let count = order.len() as f64;
        let place = |(rank, (id, _)): (usize, &(u32, usize))| (*id, 1.0 - rank as f64 / count);
        self.liked = order.iter().enumerate().map(place).collect();
    }
}

impl Plugin for Ascend {
    fn name(&self) -> &'static str {
        "ascend"
    }

    fn points(&self) -> &'static [Point] {
        &[
            Point::PreJobAllocation,
            Point::Predicate,
            Point::NodeOrder,
            Point::NpuPlacement,
            Point::BindRequestMutate,
        ]
    }

    fn open(&mut self, view: View<'_>) {
        self.super_pods = view.snapshot.nodes.iter().any(|node| node.super_pod.is_some());
    }

    fn pre_job_allocation(&mut self, view: View<'_>, gang: &Gang) {
        if self.super_pods {
            self.like(view, gang);
        }
    }

    fn predicate_scope(&self, _: View<'_>, _: ClassId) -> Scope {
        Scope::Node
    }

    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        Self::choose(view, task, node).map(|_| ())
    }

    fn node_order_scope(&self, view: View<'_>, task: TaskId) -> Scope {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let grouped = self.super_pods && view.snapshot.dimensions.is_npu(class.primary);
        if grouped { Scope::Session } else { Scope::Node }
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let i = class.primary;
        if !view.snapshot.dimensions.is_npu(i) {
            return Some(0.0);
        }
        let super_pod = view.snapshot.nodes[node].super_pod;
        let near = super_pod
            .and_then(|id| self.liked.get(&id))
            .map_or(0.0, |liked| liked * score::SUPER_POD);
        let ring = match Self::choose(view, task, node) {
            Ok(Some((_, fit))) => fit * score::RING,
            Ok(None) => {
                let left = view.state.nodes[node].free(i) - at(&class.request, i);
                if left >= 0.0 && left % RING == 0.0 { GUESS } else { 0.0 }
            }
            Err(_) => 0.0,
        };
        Some(near + ring)
    }

    fn npu_placement(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<NpuPlacement> {
        Self::choose(view, task, node).ok().flatten().map(|(placement, _)| placement)
    }

    fn bind_request(
        &self,
        view: View<'_>,
        task: TaskId,
        _: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
        let Some(npus) = &view.state.tasks[task].npus else { return };
        if !view.snapshot.parameters.ascend_handshake {
            return;
        }
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let resource = view.snapshot.dimensions.name(class.primary);
        let short = resource.rsplit('/').next().unwrap_or(resource);
        let names: Vec<String> = npus.iter().map(|id| format!("{short}-{id}")).collect();
        annotations.insert(resource.to_owned(), names.join(","));
        annotations.insert(DECIDED.to_owned(), view.snapshot.now.as_nanosecond().to_string());
    }
}
