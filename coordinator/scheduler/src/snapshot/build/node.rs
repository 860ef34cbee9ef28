//! Nodes: what they have, what keeps pods off them, how they cut devices.

use std::collections::{BTreeMap, HashMap};

use crate::{
    input::{
        Input, Inventory, Labels, Node as NodeObject, NodeResourceTopology, NodeStatus,
        ResourceList,
    },
    snapshot::{Dimensions, GPU, Node, NodeId, Npu, Npus, PODS, SliceStrategy, Table, Vector, at},
};

use super::Builder;

/// Mebibytes of a device on a node that does not say.
pub(super) const UNKNOWN_MEMORY: i64 = 100;
const TEBIBYTE: i64 = 1_048_576;
/// Label with the super-pod that a node's agent tells, for topologies to be made of.
const SUPER_POD: &str = "muster.dev/super-pod";
/// Label with the clique of linked devices that a node's agent tells.
const CLIQUE: &str = "muster.dev/clique";

/// What other objects say of nodes, by name.
#[derive(Default)]
pub(super) struct Facts<'a> {
    inventories: HashMap<&'a str, Vec<&'a Inventory>>,
    zones: HashMap<&'a str, &'a NodeResourceTopology>,
    /// Graphics devices that are offered as claims.
    claimable: HashMap<&'a str, f64>,
}

// === impl Builder ===

impl<'a> Builder<'a> {
    pub(super) fn nodes(&mut self) -> Table<NodeId, Node> {
        let mut objects: Vec<&'a NodeObject> = self
            .input
            .nodes
            .iter()
            .filter(|node| self.parameters.node_pool.takes(&node.metadata.labels))
            .filter(|node| {
                let marked = |key: &str| node.metadata.labels.get(key).is_some();
                !self.parameters.restrict_scheduling_nodes
                    || marked(&self.parameters.gpu_worker_node_label_key)
                    || marked(&self.parameters.cpu_worker_node_label_key)
            })
            .collect();
        objects.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        objects.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        let mut nodes = Table::with_capacity(objects.len());
        for object in objects {
            let node = self.node(object);
            let id = nodes.push(node);
            self.node_ids.insert(object.metadata.name.as_str(), id);
        }
        nodes
    }

    fn node(&self, object: &NodeObject) -> Node {
        let labels = &object.metadata.labels;
        let mut allocatable = amounts(&self.dimensions, &object.status.allocatable);
        let claimed = self.claimable_gpus(&object.metadata.name);
        if claimed > 0.0
            && let Some(gpus) = allocatable.get_mut(GPU)
        {
            *gpus += claimed;
        }
        let faulty_gpus = self.take_faulty(object, &mut allocatable);
        let (gpu_memory, gpu_memory_known) = gpu_memory(labels.get("nvidia.com/gpu.memory"));
        let offered = at(&allocatable, GPU) as i64;
        let told: Option<i64> =
            labels.get("nvidia.com/gpu.count").and_then(|count| count.parse().ok());
        // The label counts faulty ones too: who leaves one of those frees nothing.
        let gpu_count = match told {
            Some(told) if faulty_gpus => told.min(offered),
            told => told.unwrap_or(offered),
        };
        let sliced = match labels.get(&self.parameters.mig_worker_node_label_key) {
            Some(text) => is_true(text),
            None => (PODS + 1..self.dimensions.len())
                .any(|i| self.dimensions.is_slice(i) && at(&allocatable, i) > 0.0),
        };
        let slice_strategy = match labels.get("nvidia.com/mig.strategy") {
            Some("single") if sliced => SliceStrategy::Single,
            Some("mixed") if sliced => SliceStrategy::Mixed,
            _ => SliceStrategy::None,
        };
        let conditions = conditions(object);
        let numa = self
            .facts
            .zones
            .get(object.metadata.name.as_str())
            .and_then(|topology| crate::plugin::numa::Zones::of(topology, &self.dimensions))
            .map(Box::new);
        let all_labels = self.labels(object);
        Node {
            name: object.metadata.name.clone(),
            npus: self.npus(&object.metadata.name),
            super_pod: all_labels.get(SUPER_POD).and_then(|id| id.parse().ok()),
            labels: all_labels,
            allocatable,
            taints: object.spec.taints.clone(),
            ready: conditions.is_empty(),
            conditions,
            gpu_memory,
            gpu_memory_known,
            gpu_count,
            sliced,
            slice_strategy,
            claimed_gpus: claimed > 0.0,
            claimed_dimensions: Vec::new(),
            gpu_worker: labels.get(&self.parameters.gpu_worker_node_label_key).is_some(),
            cpu_worker: labels.get(&self.parameters.cpu_worker_node_label_key).is_some(),
            domains: Vec::new(),
            closed: Vec::new(),
            numa,
            storage: Vec::new(),
        }
    }

    /// A node's labels, with what its agent knows of where it is.
    fn labels(&self, object: &NodeObject) -> Labels {
        let mut labels = object.metadata.labels.clone();
        for inventory in self.inventories(&object.metadata.name) {
            if let Some(place) = &inventory.super_pod
                && labels.get(SUPER_POD).is_none()
            {
                labels.insert(SUPER_POD, place.id.to_string());
            }
            let mut cliques =
                inventory.devices.iter().filter_map(|device| device.clique.as_deref());
            if let Some(clique) = cliques.next().filter(|_| labels.get(CLIQUE).is_none()) {
                labels.insert(CLIQUE, clique);
            }
        }
        labels
    }

    /// Takes away devices that the node's agent calls faulty, unless the node has taken as many away itself. Whether GPUs are
    /// among them.
    fn take_faulty(&self, object: &NodeObject, allocatable: &mut Vector) -> bool {
        let mut faulty: BTreeMap<&str, f64> = BTreeMap::new();
        for inventory in self.inventories(&object.metadata.name) {
            for device in inventory.devices.iter().filter(|device| device.fault.is_some()) {
                *faulty.entry(&device.resource).or_default() += 1.0;
            }
        }
        let gpus = faulty.keys().any(|resource| self.dimensions.find(resource) == Some(GPU));
        let NodeStatus { allocatable: offered, capacity, .. } = &object.status;
        for (resource, faulty) in faulty {
            let value =
                |list: &ResourceList| list.get(resource).map(|amount| amount.units() as f64);
            let withdrawn = match (value(capacity), value(offered)) {
                (Some(has), Some(offers)) => (has - offers).max(0.0),
                _ => 0.0,
            };
            let place = self.dimensions.find(resource).and_then(|at| allocatable.get_mut(at));
            if let Some(amount) = place {
                *amount = (*amount - (faulty - withdrawn).max(0.0)).max(0.0);
            }
        }
        gpus
    }

    /// NPUs that the node's agent calls well.
    fn npus(&self, name: &str) -> Option<Box<Npus>> {
        let devices = self.inventories(name).flat_map(|inventory| &inventory.devices);
        let well = devices.filter(|device| device.fault.is_none()).filter_map(|device| {
            let dimension = self.dimensions.find(&device.resource)?;
            let npu = Npu { id: device.id, dimension, ring: device.ring };
            self.dimensions.is_npu(dimension).then_some(npu)
        });
        let mut devices: Vec<Npu> = well.collect();
        devices.sort_unstable();
        devices.dedup_by_key(|npu| (npu.id, npu.dimension));
        (!devices.is_empty()).then(|| Box::new(Npus { devices }))
    }

    fn inventories(&self, node: &str) -> impl Iterator<Item = &'a Inventory> {
        self.facts.inventories.get(node).into_iter().flatten().copied()
    }

    /// Devices of drivers of graphics devices that a node offers as claims.
    fn claimable_gpus(&self, name: &str) -> f64 {
        self.facts.claimable.get(name).copied().unwrap_or(0.0)
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    pub(super) fn of(input: &'a Input) -> Self {
        let mut facts = Self::default();
        for inventory in &input.inventories {
            facts.inventories.entry(inventory.node.as_str()).or_default().push(inventory);
        }
        for zones in &input.node_resource_topologies {
            facts.zones.entry(zones.metadata.name.as_str()).or_insert(zones);
        }
        for slice in &input.resource_slices {
            if slice.spec.driver.to_lowercase().contains("gpu") {
                let node = slice.spec.node_name.as_deref().unwrap_or("");
                *facts.claimable.entry(node).or_default() += slice.spec.devices.len() as f64;
            }
        }
        facts
    }
}

/// Amounts of a node, by dimension: names that are no resource of a node count as none.
fn amounts(dimensions: &Dimensions, list: &ResourceList) -> Vector {
    let mut vector = dimensions.zero();
    for (name, amount) in list.iter() {
        let Some(index) = dimensions.find(name) else { continue };
        let Some(place) = vector.get_mut(index) else { continue };
        *place += amount_of(dimensions, name, index, amount);
    }
    vector
}

/// An amount in the unit of its dimension.
pub fn amount_of(
    dimensions: &Dimensions,
    name: &str,
    index: usize,
    amount: muster_kube::Quantity,
) -> f64 {
    let plain = matches!(
        name,
        "memory" | "pods" | "ephemeral-storage" | "storage" | "nvidia.com/gpu" | "amd.com/gpu"
    ) || dimensions.is_slice(index)
        || dimensions.is_npu(index);
    if plain || index == GPU { amount.units() as f64 } else { amount.milli() as f64 }
}

fn gpu_memory(label: Option<&str>) -> (i64, bool) {
    let Some(memory) =
        label.and_then(|text| text.parse::<i64>().ok()).filter(|memory| *memory >= 0)
    else {
        return (UNKNOWN_MEMORY, false);
    };
    let mebibytes = if memory >= TEBIBYTE { memory / TEBIBYTE } else { memory };
    ((mebibytes - mebibytes % 100).max(1), true)
}

fn conditions(node: &NodeObject) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    if node.spec.unschedulable {
        reasons.push("unschedulable");
    }
    for condition in &node.status.conditions {
        let (reason, bad) = match condition.kind.as_str() {
            "Ready" => ("not ready", condition.status != "True"),
            "MemoryPressure" => ("memory pressure", condition.status != "False"),
            "DiskPressure" => ("disk pressure", condition.status != "False"),
            "PIDPressure" => ("process id pressure", condition.status != "False"),
            "NetworkUnavailable" => ("network unavailable", condition.status != "False"),
            _ => continue,
        };
        if bad {
            reasons.push(reason);
        }
    }
    reasons
}

fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
