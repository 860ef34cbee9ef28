//! JAX: processes are numbered, and meet at the first. A job's own variables win.

use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::PORT;
use serde_json::json;

use super::{Context, EnforceMlPolicy, Fault, Plugin};
use crate::info::Info;
use crate::registry::Registry;
use crate::{name, upsert};

/// Sets the variables that JAX processes need.
pub struct Jax;

// === impl Jax ===

impl Plugin for Jax {
    fn name(&self) -> &'static str {
        "Jax"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self);
    }
}

impl EnforceMlPolicy for Jax {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if info.ml().is_none_or(|ml| ml.jax.is_none()) {
            return Ok(());
        }
        info.count_nodes(job);
        let count = info.trainer().map_or(1, |pods| pods.count);
        if job.spec.trainer.is_none() {
            return Ok(());
        }
        if let Some(container) = info.trainer_container_mut() {
            upsert::env(container, upsert::variable("JAX_NUM_PROCESSES", count.to_string()));
            upsert::env(container, upsert::index_variable("JAX_PROCESS_ID"));
            let head = name::head_and_port(job);
            upsert::env(container, upsert::variable("JAX_COORDINATOR_ADDRESS", head));
            upsert::port(upsert::list(container, "ports"), json!({"containerPort": PORT}));
        }
        Ok(())
    }
}
