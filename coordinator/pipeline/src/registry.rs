//! Which plugins there are, and the stages that run them.

use std::sync::Arc;

use muster_api::{TrainJob, TrainJobStatus};
use serde_json::Value;

use crate::info::Info;
use crate::plugin::{
    ComponentBuilder, Context, CustomValidation, EnforceMlPolicy, EnforcePodGroupPolicy,
    EnforcePodSpec, Fault, Plugin, PodNetwork, StatusOfJob, Verdict, Watch, WatchExtension,
    coscheduling, flux, jax, job_set, mpi, plain_ml, queue, ranktable, torch, train_job_status,
    volcano, xgboost,
};
use crate::snapshot;

/// Plugins, by extension point.
#[derive(Clone, Default)]
pub struct Registry {
    /// Their names.
    pub names: Vec<&'static str>,
    /// MLPolicy.
    pub ml_policy: Vec<Arc<dyn EnforceMlPolicy>>,
    /// PodGroupPolicy.
    pub pod_group_policy: Vec<Arc<dyn EnforcePodGroupPolicy>>,
    /// PodSpec.
    pub pod_spec: Vec<Arc<dyn EnforcePodSpec>>,
    /// PodNetwork.
    pub pod_network: Vec<Arc<dyn PodNetwork>>,
    /// Build.
    pub builders: Vec<Arc<dyn ComponentBuilder>>,
    /// Admission.
    pub validators: Vec<Arc<dyn CustomValidation>>,
    /// How far a job is.
    pub status: Option<Arc<dyn StatusOfJob>>,
    /// Watches.
    pub watchers: Vec<Arc<dyn WatchExtension>>,
}

/// Applied first to last, so that nothing starts before what it needs is there.
const ORDER: [&str; 4] = ["ConfigMap", "Secret", "PodGroup", "JobSet"];

// === impl Registry ===

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.names).finish()
    }
}

impl Registry {
    /// All plugins of Muster.
    pub fn standard() -> Self {
        Self::default()
            .with(torch::Torch)
            .with(mpi::Mpi)
            .with(jax::Jax)
            .with(xgboost::Xgboost)
            .with(flux::Flux)
            .with(plain_ml::PlainMl)
            .with(coscheduling::Coscheduling)
            .with(volcano::Volcano)
            .with(queue::Queue)
            .with(train_job_status::TrainJobStatusGate)
            .with(ranktable::Ranktable)
            .with(job_set::JobSetPlugin)
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, plugin: impl Plugin + 'static) -> Self {
        self.names.push(plugin.name());
        Arc::new(plugin).register(&mut self);
        self
    }

    /// The stages that change an [`Info`], in their order.
    pub fn enforce(&self, cx: &Context<'_>, info: &mut Info, job: &TrainJob) -> Result<(), Fault> {
        info.name_scheduler(cx.settings.default_scheduler.as_deref());
        stage(self.ml_policy.iter().map(|p| p.enforce_ml_policy(cx, info, job)))?;
        stage(self.pod_group_policy.iter().map(|p| p.enforce_pod_group_policy(cx, info, job)))?;
        stage(self.pod_spec.iter().map(|p| p.enforce_pod_spec(cx, info, job)))?;
        stage(self.pod_network.iter().map(|p| p.identify_pod_network(cx, info, job)))
    }

    /// The objects, in the order in which they are to be applied.
    pub fn build(
        &self,
        cx: &Context<'_>,
        info: &Info,
        job: &TrainJob,
    ) -> Result<Vec<Value>, Fault> {
        let (mut objects, mut faults) = (Vec::new(), Vec::new());
        for builder in &self.builders {
            match builder.build(cx, info, job) {
                Ok(built) => objects.extend(built),
                Err(fault) => faults.push(fault),
            }
        }
        joined(faults)?;
        objects.sort_by_cached_key(place);
        Ok(objects)
    }

    /// Whether an object is created, and not applied: keys and the snapshot are made once. Whoever has not yet seen that they
    /// are there, and makes them again, must be told that they exist, and not replace them.
    pub fn is_made_once(&self, job: &TrainJob, object: &Value) -> bool {
        snapshot::is_snapshot(job, object)
            || self.builders.iter().any(|builder| builder.is_made_once(job, object))
    }

    /// What all plugins say of a job, sorted.
    pub fn validate(
        &self,
        cx: &Context<'_>,
        info: &Info,
        old: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict {
        let mut all = Verdict::default();
        for validator in &self.validators {
            let verdict = validator.validate(cx, info, old, new);
            all.warnings.extend(verdict.warnings);
            all.errors.extend(verdict.errors);
        }
        all.warnings.sort();
        all.errors.sort_by_cached_key(|error| (error.field.clone(), error.to_string()));
        all
    }

    /// How far a job is.
    pub fn status(
        &self,
        cx: &Context<'_>,
        job: &TrainJob,
        made: bool,
    ) -> Result<Option<TrainJobStatus>, Fault> {
        match &self.status {
            Some(plugin) => plugin.status(cx, job, made),
            None => Ok(None),
        }
    }

    /// What is to be watched, each once.
    pub fn watches(&self) -> Vec<Watch> {
        let mut all: Vec<Watch> =
            self.watchers.iter().flat_map(|plugin| plugin.watches()).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// All plugins of a stage are asked, so that which of them fail does not depend on their order.
fn stage(results: impl Iterator<Item = Result<(), Fault>>) -> Result<(), Fault> {
    joined(results.filter_map(Result::err).collect())
}

fn joined(faults: Vec<Fault>) -> Result<(), Fault> {
    if faults.is_empty() {
        return Ok(());
    }
    let mut texts: Vec<String> = faults.into_iter().map(|fault| fault.0).collect();
    texts.sort();
    Err(Fault(texts.join("\n")))
}

/// Kinds in their order, then by kind, API and name.
fn place(object: &Value) -> (usize, String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let rank = ORDER.iter().position(|known| *known == kind);
    // A kind that we do not know may be needed by the JobSet.
    let rank = rank.unwrap_or(ORDER.len() - 2);
    (rank, kind, text(&object["apiVersion"]), text(&object["metadata"]["name"]))
}
