//! The kinds that the scheduler watches, and what of them is kept.

use muster_scheduler::input::{
    BindRequest, Dialect, Labels, Meta, Node, NodeResourceTopology, PersistentVolume,
    PersistentVolumeClaim, PodGroup, PriorityClass, Queue, StorageClass, Topology,
};
use muster_scheduler_state::{Kind, Object};
use serde::Deserialize;

use super::watched::TrimmedKind;

/// Nodes of one page of a listing: they are large as they come, since they list their images.
pub const NODES: u32 = 100;
/// What kubectl keeps for itself.
const LARGE: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A pod group of the coscheduling dialect.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Coscheduling(PodGroup);

/// A pod group of Volcano.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Volcano(PodGroup);

macro_rules! trimmed {
    ($type:ty, $group:literal, $version:literal, $kind:literal, $plural:literal, $of:expr, $object:expr) => {
        impl TrimmedKind for $type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const OF: Kind = $of;

            fn object(self) -> Object {
                let make: fn(Self) -> Object = $object;
                make(self)
            }
        }
    };
}

impl TrimmedKind for Node {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const OF: Kind = Kind::Node;
    const PAGE: u32 = NODES;

    fn object(self) -> Object {
        let mut node = self;
        node.metadata.annotations = kept(&node.metadata.annotations, |_| false);
        let offered = &node.status.allocatable;
        let withdrawn = node.status.capacity.iter().filter(|(name, amount)| {
            name.contains('/') && offered.get(name).is_some_and(|offered| offered != *amount)
        });
        node.status.capacity = withdrawn.collect();
        Object::Node(node)
    }
}

trimmed!(
    PriorityClass,
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    Kind::PriorityClass,
    Object::PriorityClass
);
trimmed!(Queue, "scheduling.run.ai", "v2", "Queue", "queues", Kind::Queue, Object::Queue);
trimmed!(
    Topology,
    "kai.scheduler",
    "v1alpha1",
    "Topology",
    "topologies",
    Kind::Topology,
    Object::Topology
);
trimmed!(
    BindRequest,
    "scheduling.run.ai",
    "v1alpha2",
    "BindRequest",
    "bindrequests",
    Kind::BindRequest,
    Object::BindRequest
);
trimmed!(
    PersistentVolumeClaim,
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    Kind::PersistentVolumeClaim,
    Object::PersistentVolumeClaim
);
trimmed!(
    PersistentVolume,
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    Kind::PersistentVolume,
    Object::PersistentVolume
);
trimmed!(
    StorageClass,
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    Kind::StorageClass,
    Object::StorageClass
);
trimmed!(
    NodeResourceTopology,
    "topology.node.k8s.io",
    "v1alpha2",
    "NodeResourceTopology",
    "noderesourcetopologies",
    Kind::NodeResourceTopology,
    |zones| Object::NodeResourceTopology(Box::new(zones))
);
trimmed!(
    PodGroup,
    "scheduling.run.ai",
    "v2alpha2",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Kai),
    |group| pod_group(group, "scheduling.run.ai/v2alpha2")
);
trimmed!(
    Coscheduling,
    "scheduling.x-k8s.io",
    "v1alpha1",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Coscheduling),
    |group| pod_group(group.0, "scheduling.x-k8s.io/v1alpha1")
);
trimmed!(
    Volcano,
    "scheduling.volcano.sh",
    "v1beta1",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Volcano),
    |group| pod_group(group.0, "scheduling.volcano.sh/v1beta1")
);

/// Lists do not say the version of each object.
fn pod_group(mut group: PodGroup, version: &str) -> Object {
    version.clone_into(&mut group.api_version);
    let Meta { annotations, .. } = &mut group.metadata;
    *annotations = kept(annotations, |name| name != LARGE);
    Object::PodGroup(Box::new(group))
}

/// Those that are read.
pub(super) fn kept(all: &Labels, is_read: impl Fn(&str) -> bool) -> Labels {
    all.iter().filter(|(name, _)| is_read(name)).collect()
}
