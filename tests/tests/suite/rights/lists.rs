//! What must be allowed and what must be refused: what the programs need, and what would be a way in.

use super::{HERE, OWN};

/// Verb, group, resource with subresource, namespace (empty: all), name (empty: any).
pub type Question = (&'static str, &'static str, &'static str, &'static str, &'static str);
/// What must be allowed, and what must be refused.
pub type Lists = (&'static [Question], &'static [Question]);

pub const READS: &[&str] = &["get", "list", "watch"];
pub const WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// Whoever is logged in may ask about itself.
pub const EVERYBODY: &[&str] = &[
    "create authorization.k8s.io/selfsubjectaccessreviews",
    "create authorization.k8s.io/selfsubjectrulesreviews",
    "create authentication.k8s.io/selfsubjectreviews",
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const TRAINER: &str = "trainer.kubeflow.org";
const KTHENA: &str = "workload.kthena.io";
const SETS: &str = "leaderworkerset.x-k8s.io";
const SCHEDULING: &str = "scheduling.run.ai";
const LEASES: &str = "coordination.k8s.io";
/// Any namespace that is not ours.
const ANY: &str = "default";

pub const AGENT: Lists = (
    &[
        ("list", "", "pods", "", ""),
        ("watch", "", "pods", "", ""),
        ("patch", "", "pods", ANY, "any"),
        ("get", "", "nodes", "", "n"),
    ],
    &[
        ("create", "", "pods", ANY, ""),
        ("delete", "", "pods", ANY, "any"),
        ("update", "", "pods", ANY, "any"),
        ("patch", "", "pods/status", ANY, "any"),
        ("patch", "", "pods/ephemeralcontainers", ANY, "any"),
        ("patch", "", "pods/resize", ANY, "any"),
        ("create", "", "pods/exec", ANY, "any"),
        ("create", "", "pods/binding", ANY, "any"),
        ("create", "", "pods/eviction", ANY, "any"),
        ("get", "", "pods/log", ANY, "any"),
        ("list", "", "nodes", "", ""),
        ("patch", "", "nodes", "", "n"),
        ("patch", "", "nodes/status", "", "n"),
        ("get", "", "nodes/proxy", "", "n"),
        ("get", "", "secrets", OWN, "muster-coordinator-certs"),
        ("list", "", "secrets", "", ""),
        ("get", "", "configmaps", ANY, "any"),
        ("patch", "", "configmaps", ANY, "any"),
        ("create", "", "serviceaccounts/token", OWN, "muster-agent"),
        ("update", LEASES, "leases", OWN, "muster-coordinator"),
        ("create", "authentication.k8s.io", "tokenreviews", "", ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
        ("create", "", "events", ANY, ""),
        ("create", RBAC, "clusterrolebindings", "", ""),
        ("patch", ADMISSION, "validatingadmissionpolicies", "", "muster-agent"),
        ("delete", ADMISSION, "validatingadmissionpolicybindings", "", "muster-agent"),
        ("impersonate", "", "users", "", "kubernetes-admin"),
        ("impersonate", "", "serviceaccounts", OWN, "muster-coordinator"),
    ],
);

pub const COORDINATOR: Lists = (
    &[
        ("get", "", "pods", ANY, "any"),
        ("create", "", "pods", ANY, ""),
        ("patch", "", "pods", ANY, "any"),
        ("deletecollection", "", "pods", ANY, ""),
        ("create", "", "pods/binding", ANY, "any"),
        ("create", "", "pods/eviction", ANY, "any"),
        ("patch", "", "pods/status", ANY, "any"),
        ("patch", "", "configmaps", ANY, "any"),
        ("patch", TRAINER, "trainjobs/status", ANY, "any"),
        ("patch", TRAINER, "clustertrainingruntimes", "", "any"),
        ("create", "jobset.x-k8s.io", "jobsets", ANY, ""),
        ("update", SCHEDULING, "podgroups", ANY, "any"),
        ("create", "", "events", ANY, ""),
        ("create", "authentication.k8s.io", "tokenreviews", "", ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
        ("update", LEASES, "leases", OWN, "muster-coordinator"),
        ("update", "", "secrets", OWN, "muster-coordinator-certs"),
        ("patch", ADMISSION, "mutatingwebhookconfigurations", "", "muster-coordinator"),
        ("patch", ADMISSION, "validatingwebhookconfigurations", "", "muster-coordinator-dijob"),
        ("patch", ADMISSION, "validatingwebhookconfigurations", "", "muster-coordinator-scheduler"),
        // Nothing else keeps a JobSet back while its TrainJob is deleted in the foreground. Discovery does not show it.
        ("update", TRAINER, "trainjobs/finalizers", ANY, "any"),
        ("update", KTHENA, "modelservings/finalizers", ANY, "any"),
    ],
    &[
        ("update", "", "pods", ANY, "any"),
        ("create", "", "pods/exec", ANY, "any"),
        ("get", "", "pods/log", ANY, "any"),
        ("patch", "", "nodes", "", "n"),
        ("get", "", "nodes/proxy", "", "n"),
        ("patch", "", "secrets", ANY, "any"),
        ("delete", "", "secrets", ANY, "any"),
        ("update", "", "secrets", OWN, "somebody-elses"),
        ("update", LEASES, "leases", "kube-system", "kube-scheduler"),
        ("update", LEASES, "leases", OWN, "somebody-elses"),
        ("patch", TRAINER, "trainjobs", ANY, "any"),
        ("delete", TRAINER, "trainjobs", ANY, "any"),
        ("delete", TRAINER, "clustertrainingruntimes", "", "any"),
        ("patch", "diengine.opendilab.org", "dijobs", ANY, "any"),
        ("patch", KTHENA, "modelservings", ANY, "any"),
        ("create", "workload.serving.volcano.sh", "modelservings", ANY, ""),
        ("patch", "workload.serving.volcano.sh", "modelservings", ANY, "any"),
        ("patch", SETS, "leaderworkersets/status", ANY, "any"),
        ("delete", SCHEDULING, "queues", "", "any"),
        (
            "patch",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "",
            "trainjobs.trainer.kubeflow.org",
        ),
        ("create", ADMISSION, "mutatingwebhookconfigurations", "", ""),
        ("patch", ADMISSION, "mutatingwebhookconfigurations", "", "somebody-elses"),
        ("patch", ADMISSION, "validatingwebhookconfigurations", "", "somebody-elses"),
        ("delete", ADMISSION, "validatingwebhookconfigurations", "", "any"),
        ("patch", ADMISSION, "validatingadmissionpolicies", "", "muster-agent"),
        ("patch", ADMISSION, "validatingadmissionpolicies", "", "muster-coordinator"),
        ("create", "", "serviceaccounts/token", OWN, "muster-agent"),
        ("create", RBAC, "clusterrolebindings", "", ""),
        ("escalate", RBAC, "clusterroles", "", "any"),
        ("bind", RBAC, "clusterroles", "", "cluster-admin"),
        ("impersonate", "", "users", "", "kubernetes-admin"),
        ("list", "", "namespaces", "", ""),
    ],
);

/// Everything that a coordinator writes, in any namespace.
pub const COORDINATOR_WRITES: &[(&str, &str)] = &[
    ("create patch delete deletecollection", "/pods"),
    ("create", "/pods/binding /pods/eviction /secrets /events"),
    ("patch", "/pods/status"),
    ("create patch delete", "/configmaps jobset.x-k8s.io/jobsets"),
    ("create delete", "/services apps/controllerrevisions"),
    (
        "update patch",
        "workload.serving.volcano.sh/modelservings/status workload.kthena.io/modelservings/status
         diengine.opendilab.org/dijobs/status
         scheduling.run.ai/podgroups/status scheduling.run.ai/queues/status",
    ),
    (
        "patch",
        "trainer.kubeflow.org/trainjobs/status
         kai.scheduler/schedulingshards/status kai.scheduler/configs/status
         trainer.kubeflow.org/trainingruntimes trainer.kubeflow.org/clustertrainingruntimes",
    ),
    ("create patch", "scheduling.run.ai/queues scheduling.x-k8s.io/podgroups"),
    ("create patch update", "scheduling.run.ai/podgroups"),
    ("create patch update delete", "scheduling.volcano.sh/podgroups"),
    ("create", "authentication.k8s.io/tokenreviews authorization.k8s.io/subjectaccessreviews"),
];

/// What `--leader-worker-sets` needs beside that, and what it leaves alone.
pub const LEADER_WORKER_SETS: Lists = (
    &[
        ("patch", SETS, "leaderworkersets/status", ANY, "any"),
        ("create", "workload.serving.volcano.sh", "modelservings", ANY, ""),
        ("patch", "workload.serving.volcano.sh", "modelservings", ANY, "any"),
        // Discovery does not show it.
        ("update", SETS, "leaderworkersets/finalizers", ANY, "any"),
    ],
    &[
        ("create", SETS, "leaderworkersets", ANY, ""),
        ("patch", SETS, "leaderworkersets", ANY, "any"),
        ("delete", SETS, "leaderworkersets", ANY, "any"),
        ("update", SETS, "leaderworkersets/status", ANY, "any"),
        ("delete", "workload.serving.volcano.sh", "modelservings", ANY, "any"),
        ("patch", KTHENA, "modelservings", ANY, "any"),
    ],
);

/// Everything that it writes beside that.
pub const LEADER_WORKER_SET_WRITES: &[(&str, &str)] = &[
    ("create patch", "workload.serving.volcano.sh/modelservings"),
    ("patch", "leaderworkerset.x-k8s.io/leaderworkersets/status"),
];

pub const CTL: Lists = (
    &[
        ("list", "", "pods", "", ""),
        ("list", "", "nodes", "", ""),
        ("list", "", "configmaps", "", ""),
        ("list", SCHEDULING, "queues", "", ""),
        ("list", TRAINER, "trainjobs", "", ""),
    ],
    &[
        ("list", "", "secrets", "", ""),
        ("get", "", "configmaps", ANY, "any"),
        ("watch", "", "pods", "", ""),
        ("patch", "", "pods", ANY, "any"),
        ("delete", "", "pods", ANY, "any"),
        ("create", "", "pods/exec", ANY, "any"),
        ("get", "", "pods/log", ANY, "any"),
        ("create", "", "pods/eviction", ANY, "any"),
        ("patch", SCHEDULING, "queues", "", "any"),
        ("patch", TRAINER, "trainjobs", ANY, "any"),
        ("get", "", "nodes/proxy", "", "n"),
        ("impersonate", "", "users", "", "kubernetes-admin"),
    ],
);

/// Everything that `musterctl` lists.
pub const CTL_LISTS: &str = "
    /nodes /pods /configmaps /persistentvolumes /persistentvolumeclaims
    scheduling.run.ai/queues scheduling.run.ai/podgroups scheduling.run.ai/bindrequests
    scheduling.x-k8s.io/podgroups scheduling.volcano.sh/podgroups
    kai.scheduler/topologies kai.scheduler/schedulingshards scheduling.k8s.io/priorityclasses
    resource.k8s.io/resourceclaims resource.k8s.io/resourceslices resource.k8s.io/deviceclasses
    storage.k8s.io/storageclasses storage.k8s.io/csidrivers storage.k8s.io/csistoragecapacities
    topology.node.k8s.io/noderesourcetopologies
    batch/jobs batch/cronjobs apps/replicasets apps/deployments apps/statefulsets
    jobset.x-k8s.io/jobsets trainer.kubeflow.org/trainjobs
    workload.kthena.io/modelservings workload.serving.volcano.sh/modelservings
    diengine.opendilab.org/dijobs leaderworkerset.x-k8s.io/leaderworkersets ray.io/rayclusters";

/// Somebody with Kubernetes' own role `edit` in one namespace. What a device is, where a pod runs and what is said of jobs
/// is not among it.
pub const TENANT: Lists = (
    &[
        ("create", "", "pods", HERE, ""),
        ("patch", "", "pods", HERE, "any"),
        ("delete", "", "pods", HERE, "any"),
        ("create", "", "pods/exec", HERE, "any"),
        ("patch", "", "configmaps", HERE, "any"),
        ("get", "", "secrets", HERE, "any"),
    ],
    &[
        ("create", "", "pods/binding", HERE, "any"),
        ("patch", "", "pods/status", HERE, "any"),
        ("update", "", "pods/status", HERE, "any"),
        ("patch", "", "nodes", "", "n"),
        ("patch", "", "nodes/status", "", "n"),
        ("get", "", "nodes/proxy", "", "n"),
        ("create", "resource.k8s.io", "resourceslices", "", ""),
        ("patch", "resource.k8s.io", "resourceclaims/status", HERE, "any"),
        ("patch", "", "pods", "kube-public", "any"),
        ("patch", "", "pods", OWN, "any"),
        ("create", "", "pods", OWN, ""),
        ("create", "", "pods", "kai-resource-reservation", ""),
        ("create", "", "pods/exec", OWN, "any"),
        ("get", "", "secrets", OWN, "muster-coordinator-certs"),
        ("create", "", "serviceaccounts/token", OWN, "muster-agent"),
        ("create", "", "serviceaccounts/token", OWN, "muster-coordinator"),
        ("impersonate", "", "serviceaccounts", OWN, "muster-agent"),
        ("impersonate", "", "users", "", "system:serviceaccount:muster-system:muster-agent"),
        ("update", LEASES, "leases", OWN, "muster-coordinator"),
        ("patch", "", "configmaps", OWN, "muster-coordinator-ca"),
        ("patch", "", "configmaps", "kthena-system", "any"),
        ("patch", TRAINER, "trainjobs/status", HERE, "any"),
        ("patch", KTHENA, "modelservings/status", HERE, "any"),
        ("patch", "diengine.opendilab.org", "dijobs/status", HERE, "any"),
        ("create", "diengine.opendilab.org", "dijobs/replicas", HERE, "any"),
        ("patch", SCHEDULING, "podgroups/status", HERE, "any"),
        ("create", SCHEDULING, "queues", "", ""),
        ("patch", TRAINER, "clustertrainingruntimes", "", "any"),
        ("create", RBAC, "rolebindings", HERE, ""),
        ("create", RBAC, "clusterrolebindings", "", ""),
        ("patch", "", "namespaces", "", HERE),
        ("patch", ADMISSION, "validatingadmissionpolicies", "", "muster-agent"),
        ("create", ADMISSION, "mutatingwebhookconfigurations", "", ""),
        ("create", "authentication.k8s.io", "tokenreviews", "", ""),
    ],
);
