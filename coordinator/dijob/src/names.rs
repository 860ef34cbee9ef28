//! Every name that others rely on: labels, variables, ports, reasons of events.

/// Default key of the AggregatorConfig that is used: namespace.
pub const AGGREGATOR_NAMESPACE: &str = "di-system";
/// Default key of the AggregatorConfig that is used: name.
pub const AGGREGATOR_NAME: &str = "aggregator-config";
/// Where pods find the DI server, by default.
pub const SERVER_URL: &str = "di-server.di-system:8080";
/// The resource that `gpus` of a request means, if the template names no other.
pub const GPU: &str = "nvidia.com/gpu";
/// Resources of this domain are devices too.
pub const HUAWEI: &str = "huawei.com/";

/// The audience of tokens that the DI server takes.
pub const AUDIENCE: &str = "muster-di-server";
/// The resource that a right to ask the DI server is on.
pub const JOBS: &str = "dijobs";
/// Its subresource, which only authorization knows.
pub const REPLICAS: &str = "replicas";

/// The container that gets port and resources.
pub const CONTAINER: &str = "di-container";
/// The port of a pod's own service.
pub const PORT: &str = "di-port";
/// Ports of further processes: this and a number from 1.
pub const GPU_PORT: &str = "gpu-port";
/// The port where DDP learners meet.
pub const MASTER_PORT: &str = "master-port";
/// Number of the master port.
pub const MASTER_PORT_NUMBER: u32 = 10314;

/// Labels of every pod and service.
pub mod label {
    /// Label whose value is always [`super::super::api::GROUP`].
    pub const GROUP: &str = "group-name";
    /// Label with the job's name.
    pub const JOB: &str = "dijob-name";
    /// Label whose value is always [`CONTROLLER_VALUE`].
    pub const CONTROLLER: &str = "controller-name";
    /// Who makes them.
    pub const CONTROLLER_VALUE: &str = "di-operator";
    /// Label with the pod's role.
    pub const ROLE: &str = "replica-type";
    /// Label with the pod's name.
    pub const POD: &str = "pod-name";
    /// On DDP learners that are several pods: [`DDP_MASTER`] or [`DDP_WORKER`].
    pub const DDP: &str = "ddp-learner-type";
    /// The one that the others meet at.
    pub const DDP_MASTER: &str = "ddp-learner-master";
    /// One of the others.
    pub const DDP_WORKER: &str = "ddp-learner-worker";
}

/// Variables of containers.
pub mod env {
    /// The pod's namespace.
    pub const NAMESPACE: &str = "KUBERNETES_POD_NAMESPACE";
    /// The pod's name.
    pub const POD: &str = "KUBERNETES_POD_NAME";
    /// The DI server.
    pub const SERVER: &str = "KUBERNETES_SERVER_URL";
    /// The coordinator's own address.
    pub const COORDINATOR: &str = "KUBERNETES_COORDINATOR_URL";
    /// Processes of a logic learner.
    pub const WORLD_SIZE: &str = "WORLD_SIZE";
    /// Processes of this pod.
    pub const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";
    /// Rank of this pod's first process.
    pub const START_RANK: &str = "START_RANK";
    /// Where they meet.
    pub const MASTER_ADDR: &str = "MASTER_ADDR";
    /// And at which port.
    pub const MASTER_PORT: &str = "MASTER_PORT";
}

/// Annotation of a pod that the server made: the request that asked for it.
pub const REQUEST: &str = "muster.dev/di-request";
/// Annotation of an aggregator: how many pods its DDP learners are.
pub const DDP_PODS: &str = "muster.dev/di-ddp-learners";

/// Reasons of events and conditions.
pub mod reason {
    /// The job was seen for the first time.
    pub const CREATED: &str = "DIJobCreated";
    /// Its coordinator runs.
    pub const RUNNING: &str = "DIJobRunning";
    /// Its coordinator has failed.
    pub const FAILED: &str = "DIJobFailed";
    /// Its coordinator has succeeded.
    pub const SUCCEEDED: &str = "DIJobSucceeded";
    /// Something was made.
    pub const MADE: &str = "SuccessfulCreate";
    /// Something could not be made.
    pub const NOT_MADE: &str = "FailedCreate";
    /// Something was deleted.
    pub const DELETED: &str = "SuccessfulDelete";
    /// Something could not be deleted.
    pub const NOT_DELETED: &str = "FailedDelete";

    /// All of them.
    pub const ALL: [&str; 8] =
        [CREATED, RUNNING, FAILED, SUCCEEDED, MADE, NOT_MADE, DELETED, NOT_DELETED];
}
