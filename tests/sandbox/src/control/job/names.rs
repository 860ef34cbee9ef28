//! Labels, annotations, finalizers and reasons of Jobs.

pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub const JOB_NAME_OLD: &str = "job-name";
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub const CONTROLLER_UID_OLD: &str = "controller-uid";
pub const INDEX_ENV: &str = "JOB_COMPLETION_INDEX";
pub const MANAGER: &str = "kubernetes.io/job-controller";
/// The `source` of events.
pub const COMPONENT: &str = "job-controller";
