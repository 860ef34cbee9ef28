//! What a decision can depend on: a cluster's objects, lean and typed.
//!
//! Only fields that some action or plugin reads are kept. Every amount is parsed once, here. An object that cannot be
//! read is set aside with its name, the field and what helps ([`SetAside`]); the others load.

mod affinity;
mod archive;
mod bind_request;
mod claim;
mod inventory;
mod lists;
mod load;
mod meta;
mod node;
mod numa;
mod pod;
mod pod_group;
mod queue;
mod resources;
mod slice;
mod storage;
mod topology;
mod volume;

use jiff::Timestamp;

pub use self::{
    affinity::{
        Affinity, Effect, LabelSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, Operator,
        PodAffinity, PodAffinityTerm, Requirement, Taint, Toleration, TolerationOperator,
        WeightedNodeSelectorTerm, WeightedPodAffinityTerm,
    },
    bind_request::{BindRequest, BindRequestSpec, BindRequestStatus, ReceivedGpu},
    claim::{
        AllocatedDevices, Allocation, AllocationMode, ClaimSpec, ClaimStatus, Consumer,
        DeviceConfig, DeviceConstraint, DeviceRequest, DeviceResult, DeviceSelector,
        DeviceSubRequest, ResourceClaim,
    },
    inventory::{Inventory, InventoryDevice, SuperPodPlace},
    load::{Document, Limits, LoadError, SetAside, load},
    meta::{Labels, Meta, OwnerReference},
    node::{Condition, Node, NodeSpec, NodeStatus},
    numa::{Attribute, NodeResourceTopology, Zone, ZoneResource},
    pod::{
        Container, ContainerPort, ExtendedClaimStatus, Named, Phase, Pod, PodClaim, PodClaimStatus,
        PodSpec, PodStatus, TopologySpreadConstraint,
    },
    pod_group::{
        COSCHEDULING_GROUP, COSCHEDULING_GROUP_OLD, Dialect, GroupCondition, KAI_GROUP,
        NetworkTopology, PodGroup, PodGroupSpec, PodGroupStatus, Preemptibility,
        SchedulingCondition, SubGroup, TopologyConstraint, VOLCANO_GROUP, VOLCANO_TASK,
    },
    queue::{PriorityClass, Queue, QueueResources, QueueSpec, Quota, Usage},
    resources::{ResourceList, Resources},
    slice::{
        AttributeValue, Capacity, Device, DeviceClass, DeviceClassSpec, Pool, ResourceSlice,
        ResourceSliceSpec,
    },
    storage::{
        ConfigMap, CsiCapacity, CsiDriver, PersistentVolume, PersistentVolumeClaim, StorageClass,
    },
    topology::{Level, Topology},
    volume::{ConfigMapReference, Env, EnvFrom, Volume, VolumeMount},
};

/// A cluster's objects at one instant.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The clock; none if the document does not say.
    pub now: Option<Timestamp>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Pod groups of every dialect.
    pub pod_groups: Vec<PodGroup>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClass>,
    /// Bind requests that are on their way.
    pub bind_requests: Vec<BindRequest>,
    /// Config maps, by name only.
    pub config_maps: Vec<ConfigMap>,
    /// Claims of volumes.
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    /// Volumes.
    pub persistent_volumes: Vec<PersistentVolume>,
    /// Classes of storage.
    pub storage_classes: Vec<StorageClass>,
    /// Drivers of storage.
    pub csi_drivers: Vec<CsiDriver>,
    /// Room that storage has.
    pub csi_capacities: Vec<CsiCapacity>,
    /// Claims of devices.
    pub resource_claims: Vec<ResourceClaim>,
    /// Devices that drivers offer.
    pub resource_slices: Vec<ResourceSlice>,
    /// Classes of devices.
    pub device_classes: Vec<DeviceClass>,
    /// What nodes have per NUMA zone.
    pub node_resource_topologies: Vec<NodeResourceTopology>,
    /// What queues have used of late, as a part of the cluster.
    pub usage: Vec<(String, Usage)>,
    /// What agents know of their nodes.
    pub inventories: Vec<Inventory>,
    /// What could not be read.
    pub set_aside: Vec<SetAside>,
}
