//! What is listed, by which names, and what of it is kept.

/// A kind of object.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Its list in a snapshot.
    pub(crate) list: &'static str,
    /// Its name in the API.
    pub(crate) kind: &'static str,
    /// Group and version, the newest first, and plural.
    pub(crate) at: &'static [&'static str],
    /// The last part of its path.
    pub(crate) plural: &'static str,
    /// What it means if the cluster does not know it.
    pub(crate) need: Need,
    /// Which fields are listed.
    pub(crate) fields: ListedFields,
}

/// What it means if a cluster does not know a kind, or does not let it be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing can be said without.
    Must,
    /// It belongs to Muster: its absence is said.
    Ours,
    /// Many clusters have none.
    May,
}

/// Which fields of objects a list asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedFields {
    All,
    /// Names only: the rest does not leave the API server.
    Names,
    /// Names and owners, for finding what belongs to what.
    Owners,
}

/// Which lists a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What nodes have and what queues may have.
    Room,
    /// All that decisions depend on, and who owns what.
    All,
    /// What the people of a namespace may see of it: pods, groups, who owns what.
    Near,
}

/// The list of what owns pods.
pub(crate) const OWNERS: &str = "owners";

/// Lists that people may see of their own namespace.
const NEAR: [&str; 4] = ["pods", "podGroups", "bindRequests", OWNERS];

// === impl Scope ===

impl Scope {
    /// The kinds of a scope.
    pub(crate) fn kinds(self) -> impl Iterator<Item = &'static Kind> {
        let more: &[Kind] = if self == Self::Room { &[] } else { &MORE };
        ROOM.iter().chain(more).filter(move |kind| self != Self::Near || NEAR.contains(&kind.list))
    }
}

const fn full(
    list: &'static str,
    kind: &'static str,
    plural: &'static str,
    need: Need,
    at: &'static [&'static str],
) -> Kind {
    Kind { list, kind, at, plural, need, fields: ListedFields::All }
}

const fn owner(kind: &'static str, plural: &'static str, at: &'static [&'static str]) -> Kind {
    Kind { list: OWNERS, kind, at, plural, need: Need::May, fields: ListedFields::Owners }
}

const RESOURCE: &[&str] =
    &["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"];
const STORAGE: &[&str] = &["storage.k8s.io/v1"];

static ROOM: [Kind; 13] = [
    full("nodes", "Node", "nodes", Need::Must, &["v1"]),
    full("pods", "Pod", "pods", Need::Must, &["v1"]),
    full("queues", "Queue", "queues", Need::Ours, &["scheduling.run.ai/v2"]),
    full("podGroups", "PodGroup", "podgroups", Need::Ours, &["scheduling.run.ai/v2alpha2"]),
    full("podGroups", "PodGroup", "podgroups", Need::May, &["scheduling.x-k8s.io/v1alpha1"]),
    full("podGroups", "PodGroup", "podgroups", Need::May, &["scheduling.volcano.sh/v1beta1"]),
    full("topologies", "Topology", "topologies", Need::Ours, &["kai.scheduler/v1alpha1"]),
    full(
        "schedulingShards",
        "SchedulingShard",
        "schedulingshards",
        Need::May,
        &["kai.scheduler/v1"],
    ),
    full(
        "bindRequests",
        "BindRequest",
        "bindrequests",
        Need::Ours,
        &["scheduling.run.ai/v1alpha2"],
    ),
    full(
        "priorityClasses",
        "PriorityClass",
        "priorityclasses",
        Need::May,
        &["scheduling.k8s.io/v1"],
    ),
    full("resourceClaims", "ResourceClaim", "resourceclaims", Need::May, RESOURCE),
    full("resourceSlices", "ResourceSlice", "resourceslices", Need::May, RESOURCE),
    full("deviceClasses", "DeviceClass", "deviceclasses", Need::May, RESOURCE),
];

static MORE: [Kind; 19] = [
    Kind {
        list: "configMaps",
        kind: "ConfigMap",
        at: &["v1"],
        plural: "configmaps",
        need: Need::Must,
        fields: ListedFields::Names,
    },
    full(
        "persistentVolumeClaims",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Need::Must,
        &["v1"],
    ),
    full("persistentVolumes", "PersistentVolume", "persistentvolumes", Need::Must, &["v1"]),
    full("storageClasses", "StorageClass", "storageclasses", Need::May, STORAGE),
    full("csiDrivers", "CSIDriver", "csidrivers", Need::May, STORAGE),
    full("csiStorageCapacities", "CSIStorageCapacity", "csistoragecapacities", Need::May, STORAGE),
    full(
        "nodeResourceTopologies",
        "NodeResourceTopology",
        "noderesourcetopologies",
        Need::May,
        &["topology.node.k8s.io/v1alpha2", "topology.node.k8s.io/v1alpha1"],
    ),
    owner("Job", "jobs", &["batch/v1"]),
    owner("CronJob", "cronjobs", &["batch/v1"]),
    owner("ReplicaSet", "replicasets", &["apps/v1"]),
    owner("Deployment", "deployments", &["apps/v1"]),
    owner("StatefulSet", "statefulsets", &["apps/v1"]),
    owner("JobSet", "jobsets", &["jobset.x-k8s.io/v1alpha2"]),
    owner("TrainJob", "trainjobs", &["trainer.kubeflow.org/v1alpha1"]),
    owner("ModelServing", "modelservings", &["workload.kthena.io/v1alpha1"]),
    owner("ModelServing", "modelservings", &["workload.serving.volcano.sh/v1alpha1"]),
    owner("DIJob", "dijobs", &["diengine.opendilab.org/v1alpha1"]),
    owner("LeaderWorkerSet", "leaderworkersets", &["leaderworkerset.x-k8s.io/v1"]),
    owner("RayCluster", "rayclusters", &["ray.io/v1"]),
];

// === impl Kind ===

impl Kind {
    /// Where its objects are listed, in one namespace or in all.
    pub(crate) fn path(&self, version: &str, namespace: Option<&str>) -> String {
        let root = if version.contains('/') { "apis" } else { "api" };
        match namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("/{root}/{version}/{}", self.plural),
        }
    }
}
