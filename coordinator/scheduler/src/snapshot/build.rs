//! From a cluster's objects to a snapshot.
//!
//! Names are sorted before they get ids, so that the order of ids breaks every tie by name.

mod claim;
mod constraint;
mod device;
mod group;
mod network;
pub(super) mod node;
mod overlay;
mod pod;
mod queue;
mod shape;
mod storage;
mod topology;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use crate::{
    config::Params,
    input::{Input, Pod, ResourceList},
};

pub use self::node::amount_of;

use super::{
    ClaimShape, Class, ClassId, Dimensions, GroupId, Id, JobId, LeftOut, NodeId, Overlay, QueueId,
    Snapshot, Table, TopologyId, signature,
};

/// What is known while a snapshot is made.
struct Builder<'a> {
    input: &'a Input,
    overlay: &'a Overlay<'a>,
    now: Timestamp,
    parameters: &'a Params,
    dimensions: Dimensions,
    facts: node::Facts<'a>,
    node_ids: HashMap<&'a str, NodeId>,
    /// Namespaces and names of config maps.
    config_maps: HashSet<(&'a str, &'a str)>,
    queue_ids: BTreeMap<String, QueueId>,
    topology_ids: BTreeMap<&'a str, TopologyId>,
    group_ids: BTreeMap<String, GroupId>,
    groups: Vec<String>,
    left_out: Vec<LeftOut>,
    /// How pods name each group, in the order of groups.
    job_keys: Vec<String>,
    /// Filters by class and selectors; why, if they cannot be read.
    filter_ids: BTreeMap<(String, Vec<String>), Result<u32, String>>,
    /// Filters of extended resources, by dimension.
    extended: BTreeMap<usize, u32>,
    claim_shapes: BTreeMap<ClaimShape, u32>,
    /// Whether several pods name a claim.
    shared_claims: Vec<bool>,
}

/// Makes a snapshot of objects alone: nothing is ordered that they do not show.
pub fn build(input: &Input, parameters: &Params, now: Timestamp) -> Snapshot {
    Snapshot::build(input, &Overlay::default(), parameters, now)
}

fn snapshot(input: &Input, overlay: &Overlay<'_>, parameters: &Params, now: Timestamp) -> Snapshot {
    let mut builder = Builder {
        input,
        overlay,
        now,
        parameters,
        dimensions: Dimensions::default(),
        facts: node::Facts::of(input),
        node_ids: HashMap::new(),
        config_maps: constraint::config_maps(input),
        queue_ids: BTreeMap::new(),
        topology_ids: BTreeMap::new(),
        group_ids: BTreeMap::new(),
        groups: Vec::new(),
        left_out: Vec::new(),
        job_keys: Vec::new(),
        filter_ids: BTreeMap::new(),
        extended: BTreeMap::new(),
        claim_shapes: BTreeMap::new(),
        shared_claims: Vec::new(),
    };
    builder.intern_dimensions();
    let mut nodes = builder.nodes();
    let (topologies, domains) = builder.topologies(&nodes);
    for (id, places) in domains {
        nodes[id].domains = places;
    }
    if parameters.schedule_csi_storage {
        builder.storage(&mut nodes);
    }
    let mut devices = builder.devices(&mut nodes);
    builder.claims(&mut devices);
    builder.dimensions.find_kinds(nodes.iter().map(|node| &*node.allocatable));
    let queues = builder.queues();
    let (mut jobs, mut pod_sets) = builder.jobs(&nodes);
    // Only asked by name: its order decides nothing.
    let names: HashMap<String, JobId> = builder.job_keys.drain(..).zip(jobs.ids()).collect();
    let pods = builder.pods();
    let (mut tasks, classes) =
        builder.tasks(&pods, &names, &mut jobs, &mut pod_sets, &nodes, &mut devices);
    builder.lay_overlay(&mut tasks, &pods, &mut nodes);
    claim::tell_users(&mut devices, &tasks);
    let known =
        || nodes.iter().map(|node| node.gpu_memory).filter(|memory| *memory > node::UNKNOWN_MEMORY);
    let (min_gpu_memory, max_gpu_memory) = (known().min(), known().max());
    let mut largest = builder.dimensions.zero();
    for node in nodes.iter() {
        for (most, amount) in largest.iter_mut().zip(node.allocatable.iter()) {
            *most = most.max(*amount);
        }
    }
    let any_pod_affinity = classes.iter().any(|class: &Class| class.pod_affinity);
    signature::sign(&mut jobs, &pod_sets, &tasks, &classes);
    Snapshot {
        now,
        dimensions: builder.dimensions,
        nodes,
        tasks,
        classes,
        jobs,
        pod_sets,
        queues,
        topologies,
        devices,
        groups: builder.groups,
        min_gpu_memory,
        max_gpu_memory,
        largest,
        parameters: parameters.clone(),
        any_pod_affinity,
        left_out: builder.left_out,
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Makes a snapshot of a cluster's objects, and of what was ordered that they do not show yet.
    pub fn build(
        objects: &Input,
        overlay: &Overlay<'_>,
        parameters: &Params,
        now: Timestamp,
    ) -> Self {
        snapshot(objects, overlay, parameters, now)
    }
}

// === impl Builder ===

impl<'a> Builder<'a> {
    /// All pods, by name; also those that may come into being.
    fn pods(&self) -> Vec<&'a Pod> {
        // The names themselves are sorted: an object is looked at once, when its turn comes.
        let pods = self.input.pods.iter().chain(&self.overlay.reserved.coming);
        let mut order: Vec<_> = pods.map(|pod| (pod.name(), pod)).collect();
        let unread = &self.overlay.unread;
        if !unread.is_empty() {
            order.retain(|(name, _)| !unread.contains(name));
        }
        order.sort_by_key(|(name, _)| *name);
        order.into_iter().map(|(_, pod)| pod).collect()
    }

    fn intern_dimensions(&mut self) {
        let input = self.input;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut last: Option<&ResourceList> = None;
        let mut add = |list: &'a ResourceList| names.extend(list.iter().map(|(name, _)| name));
        let mut before: Option<&ResourceList> = None;
        for node in &input.nodes {
            // Most nodes have what the one before has.
            if before != Some(&node.status.allocatable) {
                add(&node.status.allocatable);
                before = Some(&node.status.allocatable);
            }
        }
        for pod in input.pods.iter().chain(&self.overlay.reserved.coming) {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            for container in containers {
                // Most pods ask for what the one before asks for.
                if last != Some(&container.resources.requests) {
                    add(&container.resources.requests);
                    last = Some(&container.resources.requests);
                }
            }
            add(&pod.spec.overhead);
        }
        for name in names {
            self.dimensions.intern(name);
        }
    }

    fn group(&mut self, name: &str) -> GroupId {
        if let Some(id) = self.group_ids.get(name) {
            return *id;
        }
        let id = GroupId::of(self.groups.len());
        self.groups.push(name.to_owned());
        self.group_ids.insert(name.to_owned(), id);
        id
    }

    fn leave_out(&mut self, object: String, why: impl Into<String>) {
        self.left_out.push(LeftOut { object, why: why.into() });
    }
}

/// Adds a value to a table unless an equal one is there.
fn class_id(
    classes: &mut Table<ClassId, Class>,
    known: &mut BTreeMap<shape::Shape, ClassId>,
    shape: shape::Shape,
    make: impl FnOnce(&shape::Shape) -> Class,
) -> ClassId {
    if let Some(id) = known.get(&shape) {
        return *id;
    }
    let id = classes.push(make(&shape));
    known.insert(shape, id);
    id
}
