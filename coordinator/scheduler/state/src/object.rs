//! What is kept of the cluster: kinds, and objects as lean as decisions need them.

use muster_scheduler::input::{
    self, BindRequest, ConfigMap, Dialect, Node, NodeResourceTopology, PersistentVolume,
    PersistentVolumeClaim, Pod, PodGroup, PriorityClass, Queue, StorageClass, Topology,
};

/// Kinds that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Pods, those of other schedulers too: they take room.
    Pod,
    /// Queues.
    Queue,
    /// Pod groups of a dialect.
    PodGroup(Dialect),
    /// Topologies.
    Topology,
    /// Priority classes.
    PriorityClass,
    /// Bindings that take more than one write.
    BindRequest,
    /// Config maps, by name.
    ConfigMap,
    /// Claims of volumes.
    PersistentVolumeClaim,
    /// Volumes.
    PersistentVolume,
    /// Classes of storage.
    StorageClass,
    /// What nodes have in each NUMA zone.
    NodeResourceTopology,
}

/// An object.
#[derive(Clone, Debug)]
pub enum Object {
    /// A node.
    Node(Node),
    /// A pod.
    Pod(Box<Pod>),
    /// A queue.
    Queue(Queue),
    /// A pod group; its `apiVersion` says the dialect.
    PodGroup(Box<PodGroup>),
    /// A topology.
    Topology(Topology),
    /// A priority class.
    PriorityClass(PriorityClass),
    /// A binding that takes more than one write.
    BindRequest(BindRequest),
    /// A config map.
    ConfigMap(ConfigMap),
    /// A claim of a volume.
    PersistentVolumeClaim(PersistentVolumeClaim),
    /// A volume.
    PersistentVolume(PersistentVolume),
    /// A class of storage.
    StorageClass(StorageClass),
    /// What a node has in each NUMA zone.
    NodeResourceTopology(Box<NodeResourceTopology>),
}

/// Namespace and name; the namespace is empty for objects of the cluster.
pub type Name = (Box<str>, Box<str>);

// === impl Object ===

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Node(_) => Kind::Node,
            Self::Pod(_) => Kind::Pod,
            Self::Queue(_) => Kind::Queue,
            Self::PodGroup(group) => Kind::PodGroup(group.dialect()),
            Self::Topology(_) => Kind::Topology,
            Self::PriorityClass(_) => Kind::PriorityClass,
            Self::BindRequest(_) => Kind::BindRequest,
            Self::ConfigMap(_) => Kind::ConfigMap,
            Self::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Self::PersistentVolume(_) => Kind::PersistentVolume,
            Self::StorageClass(_) => Kind::StorageClass,
            Self::NodeResourceTopology(_) => Kind::NodeResourceTopology,
        }
    }
}

/// The name of an object.
pub fn name_of(meta: &input::Meta) -> Name {
    (meta.namespace.as_str().into(), meta.name.as_str().into())
}

/// A name as the engine's overlay has it.
pub(crate) fn borrowed((namespace, name): &Name) -> (&str, &str) {
    (namespace, name)
}

/// A name from its parts.
pub fn name(namespace: &str, name: &str) -> Name {
    (namespace.into(), name.into())
}

/// `namespace/name`, as decisions write it.
pub fn shown((namespace, name): &Name) -> String {
    if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") }
}

/// The name that a decision writes as `namespace/name`.
pub fn read(shown: &str) -> Name {
    shown.split_once('/').map_or_else(|| name("", shown), |(space, word)| name(space, word))
}
