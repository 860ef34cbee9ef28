//! A node as the scheduler sees it.

use crate::input::{Labels, Taint};

use super::{GroupId, Npus, Vector};

/// How a node cuts its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceStrategy {
    /// Not, or in no known way.
    None,
    /// All slices alike, offered as whole devices.
    Single,
    /// Slices by name.
    Mixed,
}

/// A node as the engine sees it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the Node object.
    pub name: String,
    /// Labels of the Node object.
    pub labels: Labels,
    /// What pods can have of it.
    pub allocatable: Vector,
    /// What keeps pods off it.
    pub taints: Vec<Taint>,
    /// Why it takes no pods: unschedulable, not ready, under pressure.
    pub conditions: Vec<&'static str>,
    /// Whether it counts for what queues divide.
    pub ready: bool,
    /// Mebibytes of each of its devices.
    pub gpu_memory: i64,
    /// Whether it said so itself.
    pub gpu_memory_known: bool,
    /// How many devices it has.
    pub gpu_count: i64,
    /// Whether its devices are cut into slices.
    pub sliced: bool,
    /// How its devices are divided into slices.
    pub slice_strategy: SliceStrategy,
    /// Whether its devices are offered as claims.
    pub claimed_gpus: bool,
    /// Dimensions of which it has only devices that are claimed one by one.
    pub claimed_dimensions: Vec<usize>,
    /// Whether it is marked for pods with accelerators.
    pub gpu_worker: bool,
    /// Whether it is marked for pods without.
    pub cpu_worker: bool,
    /// Its place in each topology: the finest domain, by topology.
    pub domains: Vec<Option<usize>>,
    /// Shared devices that nobody else may have a part of.
    pub closed: Vec<GroupId>,
    /// Its NPUs one by one, if its agent tells.
    pub npus: Option<Box<Npus>>,
    /// The super-pod that it is in.
    pub super_pod: Option<u32>,
    /// Its NUMA zones.
    pub numa: Option<Box<crate::plugin::numa::Zones>>,
    /// Room of storage by class: bytes, and the largest volume.
    pub storage: Vec<(String, i64)>,
}
