//! `predicates`: whether a node can run a pod at all.
//!
//! Taints, selectors and affinities, ports, volumes, kinds of devices, pod slots, the node's own state. Not looked at,
//! as in the original: topology spread constraints, preferred node affinity, disruption budgets.

use crate::{
    framework::{Plugin, Point, Scope, View},
    input::Effect,
    reason::{NodeRefusal, Reason, Refusal},
    snapshot::{Class, ClassId, GpuKind, Node, NodeId, SliceStrategy, Snapshot, TaskId, at},
    state::NodeState,
};

use super::pod_affinity::Affinities;

/// Whether a node can run a pod at all.
#[derive(Default)]
pub struct Predicates {
    affinities: Affinities,
}

impl Plugin for Predicates {
    fn name(&self) -> &'static str {
        "predicates"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PrePredicate, Point::VictimInvariantPrePredicate, Point::Predicate]
    }

    fn pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        self.victim_invariant_pre_predicate(view, task)
    }

    fn victim_invariant_pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        let snapshot = view.snapshot;
        let class = &snapshot.classes[snapshot.tasks[task].class];
        too_large(snapshot, class)?;
        let constraints = &class.constraints;
        let list = |names: &[String]| names.join(", ");
        if !constraints.missing_config_maps.is_empty() {
            let message = format!(
                "config maps that do not exist: {}; create them, or mark them optional",
                list(&constraints.missing_config_maps)
            );
            return Err(Refusal::new(Reason::MissingConfigMap, message));
        }
        if !constraints.missing_claims.is_empty() {
            return Err(Refusal::new(Reason::MissingVolume, list(&constraints.missing_claims)));
        }
        Ok(())
    }

    fn fixed_predicate(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<(), NodeRefusal> {
        let snapshot = view.snapshot;
        let (class, node_id, node) =
            (&snapshot.classes[snapshot.tasks[task].class], node, &snapshot.nodes[node]);
        device_kind(class, node)?;
        if class.gpu.memory > 0 && !node.gpu_memory_known {
            return Err(NodeRefusal::GpuMemoryUnknown);
        }
        if let Some(why) = node.conditions.first() {
            return Err(NodeRefusal::NodeState(why));
        }
        let constraints = &class.constraints;
        let borne = node
            .taints
            .iter()
            .filter(|taint| matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute))
            .all(|taint| {
                constraints.tolerations.iter().any(|toleration| toleration.tolerates(taint))
            });
        if !borne {
            return Err(NodeRefusal::Taint);
        }
        if !node_affinity(class, node) {
            return Err(NodeRefusal::NodeAffinity);
        }
        let unreachable = |nodes: &Vec<u32>| nodes.binary_search(&node_id.0).is_err();
        if constraints.claims.iter().any(|claim| claim.nodes.as_ref().is_some_and(unreachable)) {
            return Err(NodeRefusal::Volume);
        }
        if snapshot.parameters.restrict_scheduling_nodes
            && !(if class.cpu_only { node.cpu_worker } else { node.gpu_worker })
        {
            return Err(NodeRefusal::WorkerLabel);
        }
        Ok(())
    }

    fn predicate_scope(&self, view: View<'_>, class: ClassId) -> Scope {
        // Where pods look at pods, a place that somebody gets elsewhere counts too.
        let _ = class;
        if view.snapshot.any_pod_affinity { Scope::Session } else { Scope::Node }
    }

    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        let snapshot = view.snapshot;
        let class = &snapshot.classes[snapshot.tasks[task].class];
        let (spec, state) = (&snapshot.nodes[node], &view.state.nodes[node]);
        let free = state.pod_slots();
        if class.gpu.is_shared() {
            if free < 2.0 && needs_new_group(view, class, spec, state) {
                return Err(NodeRefusal::PodSlots);
            }
        } else if free <= 0.0 {
            return Err(NodeRefusal::PodSlots);
        }
        if !class.constraints.ports.is_empty() && port_taken(snapshot, class, task, state) {
            return Err(NodeRefusal::Ports);
        }
        if snapshot.parameters.schedule_csi_storage {
            storage_room(snapshot, class, task, spec, state)?;
        }
        if snapshot.any_pod_affinity && !self.affinities.allow(view, task, node) {
            return Err(NodeRefusal::PodAffinity);
        }
        Ok(())
    }
}

/// Whether a pod asks for more than any node has.
fn too_large(snapshot: &Snapshot, class: &Class) -> Result<(), Refusal> {
    let over =
        class.request.iter().enumerate().find(|(i, asked)| **asked > at(&snapshot.largest, *i));
    let Some((i, asked)) = over else { return Ok(()) };
    let (name, most) = (snapshot.dimensions.name(i), at(&snapshot.largest, i));
    let message = if most > 0.0 {
        format!("it asks for {asked} of {name}, and no node has more than {most}")
    } else {
        format!("it asks for {asked} of {name}, and no node has any")
    };
    Err(Refusal::new(Reason::LargerThanAnyNode, message))
}

fn device_kind(class: &Class, node: &Node) -> Result<(), NodeRefusal> {
    let slice = class.gpu.kind == GpuKind::Slice;
    let refused = class.gpu.by_annotation
        || (class.needs_gpu()
            && ((node.claimed_gpus && class.gpu.is_shared())
                || (slice && !node.sliced)
                || (node.slice_strategy == SliceStrategy::Single
                    && class.gpu.kind != GpuKind::Whole)
                || (node.slice_strategy == SliceStrategy::Mixed && !slice)));
    if refused { Err(NodeRefusal::DeviceKind) } else { Ok(()) }
}

/// Whether a node is what a pod's selector and required affinity ask for.
pub fn node_affinity(class: &Class, node: &Node) -> bool {
    let constraints = &class.constraints;
    let selected =
        constraints.node_selector.iter().all(|(name, value)| node.labels.get(name) == Some(value));
    let required =
        constraints.affinity.as_ref().and_then(|affinity| affinity.node_affinity.required.as_ref());
    selected && required.is_none_or(|selector| selector.matches(&node.name, &node.labels))
}

/// Whether a pod that shares devices needs one that nobody holds yet, and so a slot for the pod that will. Devices with
/// a number as their name are held already.
fn needs_new_group(view: View<'_>, class: &Class, node: &Node, state: &NodeState) -> bool {
    let numbered = state
        .shared
        .iter()
        .filter(|device| device.fits(&class.gpu, node))
        .filter(|device| {
            let name = view.state.groups.get(device.group.0 as usize);
            name.is_some_and(|name| name.parse::<i64>().is_ok())
        })
        .count() as i64;
    numbered < class.gpu.count
}

fn port_taken(snapshot: &Snapshot, class: &Class, task: TaskId, state: &NodeState) -> bool {
    let protocol = |name: &str| if name.is_empty() { "TCP".to_owned() } else { name.to_owned() };
    let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    state.pods.iter().filter(|pod| pod.task != task).any(|pod| {
        let other = &snapshot.classes[snapshot.tasks[pod.task].class].constraints.ports;
        class.constraints.ports.iter().any(|mine| {
            other.iter().any(|theirs| {
                mine.host_port == theirs.host_port
                    && protocol(&mine.protocol) == protocol(&theirs.protocol)
                    && (mine.host_ip == theirs.host_ip
                        || every(&mine.host_ip)
                        || every(&theirs.host_ip))
            })
        })
    })
}

/// Whether storage of a node has room for volumes that are not made yet.
fn storage_room(
    snapshot: &Snapshot,
    class: &Class,
    task: TaskId,
    node: &Node,
    state: &NodeState,
) -> Result<(), NodeRefusal> {
    for claim in class.constraints.claims.iter().filter(|claim| !claim.bound) {
        let Some((_, room)) = node.storage.iter().find(|(name, _)| *name == claim.class) else {
            return Err(NodeRefusal::Volume);
        };
        let taken: i64 = state
            .pods
            .iter()
            .filter(|pod| pod.task != task)
            .flat_map(|pod| &snapshot.classes[snapshot.tasks[pod.task].class].constraints.claims)
            .filter(|other| !other.bound && other.class == claim.class)
            .map(|other| other.size)
            .sum();
        if taken.saturating_add(claim.size) > *room {
            return Err(NodeRefusal::Volume);
        }
    }
    Ok(())
}
