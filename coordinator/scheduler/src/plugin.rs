//! Plugins: what decides the order of things, where they fit, and who may take whose place.

pub mod ascend;
pub mod dynamic_resources;
pub mod elastic;
pub mod gpu_order;
pub mod gpu_sharing_order;
pub mod kubeflow;
pub mod min_runtime;
pub mod node_availability;
pub mod node_placement;
pub mod nominated_node;
pub mod numa;
pub mod pod_affinity;
pub mod predicates;
pub mod priority;
pub mod proportion;
pub mod ray;
pub mod reflect_job_order;
pub mod resource_type;
pub mod scenario_generator;
pub mod subgroup_order;
pub mod task_order;
pub mod topology;

use crate::{config::plugin as name, framework::Build};

/// Weights of scores: each outweighs all below it.
pub mod score {
    /// How full a node is: at most this.
    pub const DENSITY: f64 = 9.0;
    /// A node without accelerators for a pod that needs none.
    pub const RESOURCE_TYPE: f64 = 10.0;
    /// A ring of NPUs that fits.
    pub const RING: f64 = 20.0;
    /// The right super-pod.
    pub const SUPER_POD: f64 = 50.0;
    /// Zones of a node.
    pub const NUMA: f64 = 100.0;
    /// Score of a node that has room now.
    pub const AVAILABILITY: f64 = 1_000.0;
    /// A device that is shared already.
    pub const GPU_SHARING: f64 = 10_000.0;
    /// The right domain.
    pub const TOPOLOGY: f64 = 100_000.0;
    /// Pods near pods.
    pub const POD_AFFINITY: f64 = 1_000_000.0;
    /// The node that somebody named.
    pub const NOMINATED: f64 = 10_000_000.0;
}

/// Every plugin that is built in.
pub const BUILT_IN: &[(&str, Build)] = &[
    (name::PREDICATES, |_| Box::<predicates::Predicates>::default()),
    (name::PROPORTION, |arguments| Box::new(proportion::Proportion::new(arguments))),
    (name::PRIORITY, |_| Box::new(priority::Priority)),
    (name::NODE_AVAILABILITY, |_| Box::new(node_availability::NodeAvailability)),
    (name::RESOURCE_TYPE, |_| Box::new(resource_type::ResourceType)),
    (name::POD_AFFINITY, |_| Box::<pod_affinity::PodAffinityOrder>::default()),
    (name::ELASTIC, |_| Box::new(elastic::Elastic)),
    (name::KUBEFLOW, |_| Box::new(kubeflow::Kubeflow)),
    (name::RAY, |_| Box::new(ray::Ray)),
    (name::SUBGROUP_ORDER, |_| Box::new(subgroup_order::SubGroupOrder)),
    (name::TASK_ORDER, |_| Box::new(task_order::TaskOrder)),
    (name::NOMINATED_NODE, |_| Box::new(nominated_node::NominatedNode)),
    (name::DYNAMIC_RESOURCES, |_| Box::<dynamic_resources::DynamicResources>::default()),
    (name::MIN_RUNTIME, |arguments| Box::new(min_runtime::MinRuntime::new(arguments))),
    (name::TOPOLOGY, |_| Box::<topology::TopologyAware>::default()),
    (name::SNAPSHOT, |_| Box::new(reflect_job_order::Nothing("snapshot"))),
    (name::REFLECT_JOB_ORDER, |_| Box::new(reflect_job_order::Nothing("reflectjoborder"))),
    (name::NODE_LOCAL_GREEDY, |_| Box::new(scenario_generator::NodeLocal)),
    (name::MULTI_NODE_GANG, |_| Box::new(scenario_generator::MultiNode)),
    (name::GPU_PACK, |_| Box::new(gpu_order::GpuPack)),
    (name::GPU_SPREAD, |_| Box::new(gpu_order::GpuSpread)),
    (name::NODE_PLACEMENT, |arguments| Box::new(node_placement::NodePlacement::new(arguments))),
    (name::GPU_SHARING_ORDER, |_| Box::new(gpu_sharing_order::GpuSharingOrder)),
    (name::NUMA, |arguments| Box::new(numa::Numa::new(arguments))),
    (name::ASCEND, |_| Box::<ascend::Ascend>::default()),
];
