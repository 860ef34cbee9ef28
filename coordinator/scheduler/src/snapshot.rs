//! A cluster at one instant, ready to decide on: dense ids, one vector space, pods of one shape as one class.
//!
//! It never changes; what a cycle changes is [`crate::state`].

mod build;
mod class;
mod device;
mod gpu;
mod job;
mod node;
mod npu;
mod overlay;
mod queue;
mod resource;
mod signature;
mod table;
mod task;
mod topology;
mod vector;

use jiff::Timestamp;

use crate::config::Params;

pub use self::{
    build::{amount_of, build},
    class::{AlignedContainer, Class, Constraints, StorageClaim},
    device::{
        Choice, Claim, ClaimNeed, ClaimShape, Claimed, Device, Devices, Filter, Given, Granted,
        Pool, Reach, Request, Rule, TaskClaim,
    },
    gpu::{GpuKind, GpuRequest, ceil2},
    job::{Constraint, Job, Member, MemberKind, PodSet, ROOT},
    node::{Node, SliceStrategy},
    npu::{Choice as NpuChoice, Npu, Npus},
    overlay::{InFlight, InFlightKind, Overlay, PodName, Reserved},
    queue::Queue,
    resource::{
        CPU, Dimensions, FIRST_KIND, GPU, KINDS, MEMORY, NOTHING, PODS, Quantities, add, at,
        devices, is_kind, kind_of, less_equal, minus, plus, slice_profile, sub,
    },
    table::{
        ClaimId, ClassId, DeviceId, GroupId, Id, JobId, NodeId, PodSetId, QueueId, Table, TaskId,
        TopologyId,
    },
    task::{PodKey, Status, Task},
    topology::{Domain, Topology},
    vector::Vector,
};

/// A cluster at one instant.
#[derive(Debug)]
pub struct Snapshot {
    /// The instant.
    pub now: Timestamp,
    /// Resource names.
    pub dimensions: Dimensions,
    /// Nodes, by name.
    pub nodes: Table<NodeId, Node>,
    /// Pods.
    pub tasks: Table<TaskId, Task>,
    /// Shapes of pods.
    pub classes: Table<ClassId, Class>,
    /// Pod groups, by name.
    pub jobs: Table<JobId, Job>,
    /// Leaves of pod groups.
    pub pod_sets: Table<PodSetId, PodSet>,
    /// Queues, by name.
    pub queues: Table<QueueId, Queue>,
    /// Topologies, by name.
    pub topologies: Table<TopologyId, Topology>,
    /// Devices that are claimed one by one, and claims of them.
    pub devices: Devices,
    /// Names of shared devices.
    pub groups: Vec<String>,
    /// The least memory of a device, among nodes that say.
    pub min_gpu_memory: Option<i64>,
    /// The most.
    pub max_gpu_memory: Option<i64>,
    /// The most of each dimension that one node has.
    pub largest: Vector,
    /// Settings of the scheduler itself.
    pub parameters: Params,
    /// Whether any pod of the cluster has (anti-)affinity to pods.
    pub any_pod_affinity: bool,
    /// Objects that were left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// An object that the snapshot does not hold, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// `kind namespace/name`.
    pub object: String,
    /// Why, and what helps.
    pub why: String,
}
