//! The custom resources that Muster takes from people and writes for others, as types.
//!
//! ```text
//!   train_job, runtime ──schema──▶ crd::crds() ──▶ deploy/crds/trainer.kubeflow.org_*.yaml, muster-coordinator crd
//!   job_set, pod_group ── as far as we read and write them
//! ```
//!
//! Field names, defaults, bounds and rules are those of `trainer.kubeflow.org/v1alpha1`. Pod specs stay JSON: what a
//! person writes there reaches the pod, also what this version has never heard of. Start reading at [`train_job`].

pub mod crd;
pub mod job_set;
pub mod kai;
pub mod kind;
pub mod metadata;
pub mod names;
pub mod pod_group;
pub mod runtime;
pub mod schema;
pub mod status;
pub mod train_job;

pub use runtime::{ClusterTrainingRuntime, TrainingRuntime, TrainingRuntimeSpec};
pub use status::TrainJobStatus;
pub use train_job::TrainJob;
