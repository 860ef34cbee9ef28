//! Labels, annotations and reasons of JobSets.

pub const NAME: &str = "jobset.sigs.k8s.io/jobset-name";
pub const UID: &str = "jobset.sigs.k8s.io/jobset-uid";
pub const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
pub const REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
pub const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
pub const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
pub const GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
pub const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
pub const GROUP: &str = "jobset.sigs.k8s.io/group-name";
pub const GROUP_REPLICAS: &str = "jobset.sigs.k8s.io/group-replicas";
pub const GROUP_INDEX: &str = "jobset.sigs.k8s.io/job-group-index";
pub const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";
pub const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
pub const NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";
pub const NAMESPACED_JOB: &str = "alpha.jobset.sigs.k8s.io/namespaced-job";
pub const NO_SCHEDULE: &str = "alpha.jobset.sigs.k8s.io/no-schedule";
pub const MANAGER: &str = "jobset.sigs.k8s.io/jobset-controller";
/// The `source` of events.
pub const COMPONENT: &str = "jobset";
