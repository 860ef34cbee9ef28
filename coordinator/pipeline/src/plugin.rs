//! Plugins: what they may do, and when.
//!
//! A plugin is a value that [registers](Plugin::register) itself at the extension points that it cares for. It gates
//! itself: a runtime that does not ask for it is left alone. It has no client: what it needs to know of the cluster is in
//! [`Context`]. Plugins of one point must commute: each changes what no other changes, or changes it to the same.

pub mod coscheduling;
pub mod flux;
pub mod jax;
pub mod job_set;
pub mod mpi;
pub mod plain_ml;
pub mod queue;
pub mod ranktable;
pub mod torch;
pub mod train_job_status;
pub mod volcano;
pub mod xgboost;

use std::sync::Arc;

use muster_api::{TrainJob, TrainJobStatus};
use serde_json::Value;

pub use muster_kube::FieldError;

use crate::cluster::Cluster;
use crate::info::Info;
use crate::keys::Keys;
use crate::registry::Registry;
use crate::settings::Settings;

/// What a plugin may know beside the job and its [`Info`].
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// What is seen of the cluster.
    pub cluster: &'a dyn Cluster,
    /// What the operator has set.
    pub settings: &'a Settings,
    /// What keys are made of.
    pub keys: &'a Keys,
}

/// Why a plugin cannot do what it is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// What is wrong with a job, and what its author should know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What its author should know.
    pub warnings: Vec<String>,
    /// What is wrong.
    pub errors: Vec<FieldError>,
}

/// Which objects make a job be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watch {
    /// Objects of a kind that a job controls: API version and kind.
    Owned(&'static str, &'static str),
    /// LimitRanges: suspended jobs of their namespace.
    LimitRange,
    /// RuntimeClasses: suspended jobs whose runtime names them.
    RuntimeClass,
}

/// A plugin.
pub trait Plugin: Send + Sync {
    /// Its name, unlike all others.
    fn name(&self) -> &'static str;

    /// Puts itself at its extension points.
    fn register(self: Arc<Self>, at: &mut Registry);
}

/// Stage 1: what processes need to find each other: variables, volumes, counts.
pub trait EnforceMlPolicy: Plugin {
    /// Changes the pods.
    fn enforce_ml_policy(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault>;
}

/// Stage 2: what a scheduler needs to know pods that belong together.
pub trait EnforcePodGroupPolicy: Plugin {
    /// Changes labels and annotations of the pods.
    fn enforce_pod_group_policy(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault>;
}

/// Stage 3: what trainers need beside that.
pub trait EnforcePodSpec: Plugin {
    /// Changes the pods.
    fn enforce_pod_spec(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault>;
}

/// Stage 4: how pods reach each other.
pub trait PodNetwork: Plugin {
    /// Finds the endpoints.
    fn identify_pod_network(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault>;
}

/// Stage 5: the objects.
pub trait ComponentBuilder: Plugin {
    /// Objects to be applied.
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault>;

    /// Whether an object that this plugin has built is created, and never changed, such as a key.
    fn is_made_once(&self, _job: &TrainJob, _object: &Value) -> bool {
        false
    }
}

/// Admission: what cannot work is refused. `info` has seen no stage.
pub trait CustomValidation: Plugin {
    /// What is wrong; `old` is the job before an update.
    fn validate(
        &self,
        cx: &Context<'_>,
        info: &Info,
        old: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict;
}

/// How far a job is. There is one such plugin.
pub trait StatusOfJob: Plugin {
    /// The status, none if it stays as it is. `made` says that the workload is made in this pass.
    fn status(
        &self,
        cx: &Context<'_>,
        job: &TrainJob,
        made: bool,
    ) -> Result<Option<TrainJobStatus>, Fault>;
}

/// Which other objects matter.
pub trait WatchExtension: Plugin {
    /// What is to be watched.
    fn watches(&self) -> Vec<Watch>;
}

// === impl Fault ===

impl Fault {
    /// Something cannot be done.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
