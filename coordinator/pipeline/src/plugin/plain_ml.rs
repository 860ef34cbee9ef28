//! PlainML: runtimes without a framework. The job's number of nodes and its variables are passed on, no more.
//!
//! It is also there for Flux, which leaves both to it.

use std::sync::Arc;

use muster_api::TrainJob;

use super::{Context, EnforceMlPolicy, Fault, Plugin};
use crate::info::Info;
use crate::registry::Registry;
use crate::upsert;

/// Sets the number of nodes for runtimes without a framework.
pub struct PlainMl;

// === impl PlainMl ===

impl Plugin for PlainMl {
    fn name(&self) -> &'static str {
        "PlainML"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self);
    }
}

impl EnforceMlPolicy for PlainMl {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let other = |ml: &muster_api::runtime::MlPolicy| {
            ml.torch.is_some() || ml.mpi.is_some() || ml.jax.is_some() || ml.xgboost.is_some()
        };
        if info.ml().is_some_and(other) {
            return Ok(());
        }
        info.count_nodes(job);
        let variables = job.spec.trainer.as_ref().and_then(|trainer| trainer.env.as_ref());
        if let Some(container) = info.trainer_container_mut() {
            upsert::job_env(container, variables);
        }
        Ok(())
    }
}
