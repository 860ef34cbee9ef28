//! Shapes of pods: what decides where a pod can be, once for all pods that ask for the same.

use crate::input::{Affinity, ContainerPort, Labels, Toleration};

use super::{ClaimNeed, GpuKind, GpuRequest, Quantities, Vector};

/// What a pod asks of a place beside resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    /// Its namespace, if it matters to the rest.
    pub namespace: String,
    /// Labels that its node must have.
    pub node_selector: Labels,
    /// Where it wants to be.
    pub affinity: Option<Box<Affinity>>,
    /// Taints it bears.
    pub tolerations: Vec<Toleration>,
    /// Ports of the node that it takes.
    pub ports: Vec<ContainerPort>,
    /// Config maps it needs that do not exist.
    pub missing_config_maps: Vec<String>,
    /// Volumes it claims.
    pub claims: Vec<StorageClaim>,
    /// Claims of volumes that do not exist or are being deleted.
    pub missing_claims: Vec<String>,
    /// Its own labels, where affinities between pods look at them.
    pub labels: Labels,
    /// Claims of devices.
    pub device_claims: Vec<ClaimNeed>,
    /// Graphics devices of claims that several pods use: by claim.
    pub shared_gpus: Vec<(u32, i64)>,
    /// Claims of devices that cannot be met anywhere, and why.
    pub bad_device_claims: Vec<String>,
}

/// A volume that a pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageClaim {
    /// The claim, as `namespace/name`.
    pub key: String,
    /// Its class of storage.
    pub class: String,
    /// The requested size in bytes.
    pub size: i64,
    /// Whether it has its volume.
    pub bound: bool,
    /// Nodes that can reach the volume; none if all can.
    pub nodes: Option<Vec<u32>>,
}

/// A shape of pods.
#[derive(Clone, Debug)]
pub struct Class {
    /// What one pod asks for.
    pub request: Vector,
    /// The same as queues count it, memory of devices not converted.
    pub quantities: Quantities,
    /// What it asks of graphics devices.
    pub gpu: GpuRequest,
    /// What else it asks of a place.
    pub constraints: Constraints,
    /// Whether it needs no accelerator.
    pub cpu_only: bool,
    /// The dimension that says how full a node is for it.
    pub primary: usize,
    /// Whether it has affinities to pods.
    pub pod_affinity: bool,
    /// What it needs of each container for NUMA alignment; none if it is not aligned.
    pub containers: Vec<AlignedContainer>,
    /// Whether all its containers have equal requests and limits.
    pub guaranteed: bool,
}

/// What a container needs, where it runs aligned.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignedContainer {
    /// Whether it runs before the others, alone.
    pub init: bool,
    /// Amounts by dimension.
    pub needs: Vec<(usize, f64)>,
}

// === impl Class ===

impl Class {
    /// Whether it needs any accelerator of the graphics kind.
    pub fn needs_gpu(&self) -> bool {
        self.gpu.gpus() > 0.0
            || self.gpu.claimed > 0
            || matches!(self.gpu.kind, GpuKind::Memory | GpuKind::Slice)
    }
}
