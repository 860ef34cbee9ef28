//! Room of storage per node, where the scheduler looks at it.

use crate::{
    input::Pod,
    snapshot::{Node, NodeId, StorageClaim, Table},
};

use super::Builder;

// === impl Builder ===

impl Builder<'_> {
    /// Gives each node the room of the classes that it reaches. A node that reaches two rooms of one class has none:
    /// nobody can say which of them a volume would take.
    pub(super) fn storage(&self, nodes: &mut Table<NodeId, Node>) {
        for id in nodes.ids().collect::<Vec<_>>() {
            let mut rooms: Vec<(String, i64)> = Vec::new();
            let mut twice = false;
            for capacity in &self.input.csi_capacities {
                let reached = capacity
                    .node_topology
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&nodes[id].labels));
                if !reached {
                    continue;
                }
                twice |= rooms.iter().any(|(class, _)| *class == capacity.storage_class_name);
                let bytes = capacity.capacity.map_or(0, muster_kube::Quantity::units);
                rooms.push((capacity.storage_class_name.clone(), bytes));
            }
            nodes[id].storage = if twice { Vec::new() } else { rooms };
        }
    }

    /// Volumes that a pod claims, and what is wrong with those that cannot be had.
    pub(super) fn volume_claims(&self, pod: &Pod) -> (Vec<StorageClaim>, Vec<String>) {
        let (mut claims, mut wrong) = (Vec::new(), Vec::new());
        for volume in &pod.spec.volumes {
            let Some(name) = volume.claim_name(&pod.metadata.name) else { continue };
            let found = self.input.persistent_volume_claims.iter().find(|claim| {
                claim.metadata.namespace == pod.metadata.namespace && claim.metadata.name == name
            });
            let Some(claim) = found else {
                wrong.push(format!("volume claim {name} does not exist"));
                continue;
            };
            if claim.metadata.deletion_timestamp.is_some() {
                wrong.push(format!("volume claim {name} is being deleted"));
                continue;
            }
            let class = claim.spec.storage_class_name.clone().unwrap_or_default();
            let bound = !claim.spec.volume_name.is_empty() && claim.status.phase != "Lost";
            let waits = self.input.storage_classes.iter().any(|known| {
                known.metadata.name == class
                    && known.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
            });
            if !bound && !waits {
                wrong.push(format!("volume claim {name} has no volume yet"));
                continue;
            }
            let nodes = bound.then(|| self.volume_nodes(&claim.spec.volume_name)).flatten();
            let size = claim
                .spec
                .resources
                .requests
                .get("storage")
                .map_or(0, muster_kube::Quantity::units);
            let key = format!("{}/{name}", pod.metadata.namespace);
            claims.push(StorageClaim { key, class, size, bound, nodes });
        }
        (claims, wrong)
    }

    /// Nodes that reach a volume; none if all do.
    fn volume_nodes(&self, volume: &str) -> Option<Vec<u32>> {
        let volume =
            self.input.persistent_volumes.iter().find(|known| known.metadata.name == volume)?;
        let selector = volume.spec.node_affinity.as_ref()?.required.as_ref()?;
        let reached = self
            .input
            .nodes
            .iter()
            .filter(|node| selector.matches(&node.metadata.name, &node.metadata.labels));
        let mut ids: Vec<u32> = reached
            .filter_map(|node| self.node_ids.get(node.metadata.name.as_str()))
            .map(|id| id.0)
            .collect();
        ids.sort_unstable();
        Some(ids)
    }
}
