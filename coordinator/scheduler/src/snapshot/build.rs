//! From a cluster's objects to a snapshot.
//!
//! Names are sorted before they get ids, so that the order of ids breaks every tie by name.

mod group;
mod node;
mod pod;
mod queue;
mod storage;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::input::{self, Input};

use super::{
    Class, ClassId, Dimensions, GroupId, Id, JobId, LeftOut, NodeId, QueueId, Snapshot, Table,
    TopologyId, signature,
};

/// Settings of the scheduler itself.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Pods that name it are its own.
    pub scheduler_name: String,
    /// Label that says which shard nodes, groups and queues are of.
    pub pool_label: String,
    /// The shard; empty takes what has no such label.
    pub pool: String,
    /// Only marked nodes take pods.
    pub restrict_nodes: bool,
    /// How many groups may be moved to make room for one; -1 is any number, 0 none.
    pub max_consolidated: i64,
    /// Whether room of storage is looked at.
    pub storage: bool,
    /// Whether groups that are no easier than one that failed are passed over.
    pub signatures: bool,
    /// Whether queues divide at every level.
    pub full_hierarchy: bool,
    /// Whether pods that find another place do not count as reclaimed.
    pub consolidating_reclaim: bool,
    /// How long a group may run with too few pods; negative is for ever.
    pub staleness_grace: SignedDuration,
    /// How long a deletion may take before it counts as stuck.
    pub stuck_after: SignedDuration,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self {
            scheduler_name: "kai-scheduler".to_owned(),
            pool_label: String::new(),
            pool: String::new(),
            restrict_nodes: false,
            max_consolidated: 16,
            storage: false,
            signatures: true,
            full_hierarchy: true,
            consolidating_reclaim: true,
            staleness_grace: SignedDuration::from_secs(60),
            stuck_after: SignedDuration::from_secs(120),
        }
    }
}

impl Parameters {
    /// Whether an object with these labels is of the shard.
    fn is_ours(&self, labels: &input::Labels) -> bool {
        if self.pool_label.is_empty() {
            return true;
        }
        match labels.get(&self.pool_label) {
            Some(value) => !self.pool.is_empty() && value == self.pool,
            None => self.pool.is_empty(),
        }
    }
}

/// What is known while a snapshot is made.
struct Builder<'a> {
    input: &'a Input,
    now: Timestamp,
    parameters: &'a Parameters,
    dimensions: Dimensions,
    node_ids: BTreeMap<&'a str, NodeId>,
    queue_ids: BTreeMap<String, QueueId>,
    topology_ids: BTreeMap<&'a str, TopologyId>,
    group_ids: BTreeMap<String, GroupId>,
    groups: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// Makes a snapshot.
pub fn build(input: &Input, parameters: &Parameters, now: Timestamp) -> Snapshot {
    let mut builder = Builder {
        input,
        now,
        parameters,
        dimensions: Dimensions::default(),
        node_ids: BTreeMap::new(),
        queue_ids: BTreeMap::new(),
        topology_ids: BTreeMap::new(),
        group_ids: BTreeMap::new(),
        groups: Vec::new(),
        left_out: Vec::new(),
    };
    builder.intern_dimensions();
    let mut nodes = builder.nodes();
    let (topologies, domains) = builder.topologies(&nodes);
    for (id, places) in domains {
        nodes[id].domains = places;
    }
    if parameters.storage {
        builder.storage(&mut nodes);
    }
    let queues = builder.queues();
    let (mut jobs, mut pod_sets) = builder.jobs();
    let names: BTreeMap<String, JobId> =
        jobs.entries().map(|(id, job)| (job.name.clone(), id)).collect();
    let (tasks, classes) = builder.tasks(&names, &mut jobs, &mut pod_sets);
    let config_maps: BTreeSet<String> = input
        .config_maps
        .iter()
        .map(|map| format!("{}/{}", map.metadata.namespace, map.metadata.name))
        .collect();
    let known = || nodes.iter().map(|node| node.gpu_memory).filter(|memory| *memory > node::UNKNOWN_MEMORY);
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
        groups: builder.groups,
        config_maps,
        min_gpu_memory,
        max_gpu_memory,
        largest,
        parameters: parameters.clone(),
        any_pod_affinity,
        left_out: builder.left_out,
    }
}

// === impl Builder ===

impl Builder<'_> {
    fn intern_dimensions(&mut self) {
        let input = self.input;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for node in &input.nodes {
            names.extend(node.status.allocatable.iter().map(|(name, _)| name));
        }
        for pod in &input.pods {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            for container in containers {
                names.extend(container.resources.requests.iter().map(|(name, _)| name));
            }
            names.extend(pod.spec.overhead.iter().map(|(name, _)| name));
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
    known: &mut BTreeMap<pod::Shape, ClassId>,
    shape: pod::Shape,
    make: impl FnOnce(&pod::Shape) -> Class,
) -> ClassId {
    if let Some(id) = known.get(&shape) {
        return *id;
    }
    let id = classes.push(make(&shape));
    known.insert(shape, id);
    id
}
