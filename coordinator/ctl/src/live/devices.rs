//! Devices of nodes: how many there are, how many are free, how many are faulty.

use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{GPU, NodeId, PODS, at, ceil2};
use serde::Serialize;
use serde_json::Value as Json;

use super::world::World;

/// Devices of one kind of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Devices {
    /// The resource, such as `nvidia.com/gpu`.
    pub(crate) resource: String,
    /// How many there are, faulty ones included.
    pub(crate) all: f64,
    /// How many no pod has, parts of shared ones added up.
    pub(crate) free: f64,
    /// How many must not be used.
    pub(crate) faulty: f64,
    /// How many pods of one device each fit now; none while the node takes no pods.
    pub(crate) fitting: u64,
}

/// The devices of a node, by kind.
pub(crate) fn of(world: &World, session: &Session<'_>, id: NodeId) -> Vec<Devices> {
    let snapshot = session.snapshot;
    let (node, state) = (&snapshot.nodes[id], &session.state.nodes[id]);
    let written = world.beside.node(&node.name);
    let slots = at(&state.idle, PODS).max(0.0);
    let mut devices = Vec::new();
    for dimension in 0..snapshot.dimensions.len() {
        let is_device = dimension == GPU
            || snapshot.dimensions.is_slice(dimension)
            || snapshot.dimensions.is_npu(dimension);
        if !is_device {
            continue;
        }
        let resource = name(written, snapshot.dimensions.name(dimension), dimension);
        let usable = at(&node.allocatable, dimension);
        let told = faults(world, &node.name, &resource);
        // Both may speak of the same devices.
        let withdrawn = written.map_or(0.0, |node| withdrawn(node, &resource));
        let faulty = told.max(withdrawn);
        if usable + faulty <= 0.0 {
            continue;
        }
        let whole = at(&state.idle, dimension).max(0.0);
        let parts: f64 = if dimension == GPU && node.gpu_memory > 0 {
            let used = state.shared.iter().map(|device| device.allocated).filter(|used| *used > 0);
            used.map(|used| 1.0 - ceil2(used as f64 / node.gpu_memory as f64)).sum()
        } else {
            0.0
        };
        let fitting = if node.ready { whole.floor().min(slots) as u64 } else { 0 };
        devices.push(Devices {
            resource,
            all: usable + faulty,
            free: whole + parts,
            faulty,
            fitting,
        });
    }
    devices
}

/// Any resource that ends in `gpu` has one dimension; the node says which it has.
fn name(written: Option<&Json>, dimension_name: &str, dimension: usize) -> String {
    let offered = written.and_then(|node| node["status"]["allocatable"].as_object());
    let own = offered
        .filter(|_| dimension == GPU)
        .and_then(|offered| offered.keys().find(|name| name.ends_with("gpu")));
    own.map_or(dimension_name, String::as_str).to_owned()
}

/// Devices that the node's agent calls faulty.
fn faults(world: &World, node: &str, resource: &str) -> f64 {
    let known = world.input.inventories.iter().filter(|inventory| inventory.node == node);
    let faulty = known
        .flat_map(|inventory| &inventory.devices)
        .filter(|device| device.resource == resource && device.fault.is_some());
    faulty.count() as f64
}

/// Devices that the node has and does not offer.
fn withdrawn(node: &Json, resource: &str) -> f64 {
    let amount = |list: &str| match &node["status"][list][resource] {
        Json::String(text) => text.parse::<f64>().ok(),
        Json::Number(number) => number.as_f64(),
        _ => None,
    };
    match (amount("capacity"), amount("allocatable")) {
        (Some(has), Some(offers)) => (has - offers).max(0.0),
        _ => 0.0,
    }
}
