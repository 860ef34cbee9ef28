//! The kinds that the scheduler watches, and what of them is kept.

use muster_placement::names::FAULT_POLICY;
use muster_placement::{Kind, Object};
use muster_scheduler::input::{
    BindRequest, COSCHEDULING_GROUP, COSCHEDULING_GROUP_OLD, Dialect, KAI_GROUP, Labels, Meta,
    Node, PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, PriorityClass, Queue,
    StorageClass, Topology, VOLCANO_GROUP, VOLCANO_TASK,
};
use serde::Deserialize;

use super::seen::Lean;

/// Annotations of pods that decisions read, besides those that begin like one of [`PREFIXES`].
const READ: [&str; 7] = [
    KAI_GROUP,
    FAULT_POLICY,
    VOLCANO_GROUP,
    VOLCANO_TASK,
    "received-resource-type",
    "mps",
    "run.ai/reserve_for_gpu_index",
];
const PREFIXES: [&str; 4] = ["gpu-", "kai.scheduler/", "nvidia.com/mig-", "runai"];
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

macro_rules! lean {
    ($type:ty, $group:literal, $version:literal, $kind:literal, $plural:literal, $of:expr, $object:expr) => {
        impl Lean for $type {
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

lean!(Node, "", "v1", "Node", "nodes", Kind::Node, |mut node| {
    node.metadata.annotations = kept(&node.metadata.annotations, |_| false);
    let offered = &node.status.allocatable;
    let withdrawn = node.status.capacity.iter().filter(|(name, amount)| {
        name.contains('/') && offered.get(name).is_some_and(|offered| offered != *amount)
    });
    node.status.capacity = withdrawn.collect();
    Object::Node(node)
});
lean!(
    PriorityClass,
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    Kind::PriorityClass,
    Object::PriorityClass
);
lean!(Queue, "scheduling.run.ai", "v2", "Queue", "queues", Kind::Queue, Object::Queue);
lean!(
    Topology,
    "kai.scheduler",
    "v1alpha1",
    "Topology",
    "topologies",
    Kind::Topology,
    Object::Topology
);
lean!(
    BindRequest,
    "scheduling.run.ai",
    "v1alpha2",
    "BindRequest",
    "bindrequests",
    Kind::BindRequest,
    Object::BindRequest
);
lean!(
    PersistentVolumeClaim,
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    Kind::PersistentVolumeClaim,
    Object::PersistentVolumeClaim
);
lean!(
    PersistentVolume,
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    Kind::PersistentVolume,
    Object::PersistentVolume
);
lean!(
    StorageClass,
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    Kind::StorageClass,
    Object::StorageClass
);
lean!(
    PodGroup,
    "scheduling.run.ai",
    "v2alpha2",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Kai),
    |group| pod_group(group, "scheduling.run.ai/v2alpha2")
);
lean!(
    Coscheduling,
    "scheduling.x-k8s.io",
    "v1alpha1",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Coscheduling),
    |group| pod_group(group.0, "scheduling.x-k8s.io/v1alpha1")
);
lean!(
    Volcano,
    "scheduling.volcano.sh",
    "v1beta1",
    "PodGroup",
    "podgroups",
    Kind::PodGroup(Dialect::Volcano),
    |group| pod_group(group.0, "scheduling.volcano.sh/v1beta1")
);

impl Lean for Pod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const OF: Kind = Kind::Pod;

    fn object(mut self) -> Object {
        let read = |name: &str| {
            READ.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        self.metadata.annotations = kept(&self.metadata.annotations, read);
        Object::Pod(Box::new(self))
    }

    /// A pod that waits and has no group yet: who owns it says which it gets.
    fn wants_text(&self) -> bool {
        let labels = &self.metadata.labels;
        let foreign = [COSCHEDULING_GROUP, COSCHEDULING_GROUP_OLD];
        self.spec.node_name.is_empty()
            && self.metadata.deletion_timestamp.is_none()
            && self.metadata.annotations.get(KAI_GROUP).is_none()
            && self.metadata.annotations.get(VOLCANO_GROUP).is_none()
            && foreign.iter().all(|label| labels.get(label).is_none())
    }
}

/// Lists do not say the version of each object.
fn pod_group(mut group: PodGroup, version: &str) -> Object {
    version.clone_into(&mut group.api_version);
    let Meta { annotations, .. } = &mut group.metadata;
    *annotations = kept(annotations, |name| name != LARGE);
    Object::PodGroup(Box::new(group))
}

fn kept(all: &Labels, is_read: impl Fn(&str) -> bool) -> Labels {
    all.iter().filter(|(name, _)| is_read(name)).collect()
}
