//! XGBoost: workers are numbered, and one for each GPU; they meet at the tracker on the first node.

use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::PORT;
use muster_kube::FieldError;
use serde_json::json;

use super::{Context, CustomValidation, EnforceMlPolicy, Fault, Plugin, Verdict};
use crate::info::Info;
use crate::registry::Registry;
use crate::{name, upsert};

const URI: &str = "DMLC_TRACKER_URI";
const TRACKER_PORT: &str = "DMLC_TRACKER_PORT";
const TASK: &str = "DMLC_TASK_ID";
const WORKERS: &str = "DMLC_NUM_WORKER";

/// XGBoost.
pub struct Xgboost;

// === impl Xgboost ===

impl Plugin for Xgboost {
    fn name(&self) -> &'static str {
        "XGBoost"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self.clone());
        at.validators.push(self);
    }
}

impl EnforceMlPolicy for Xgboost {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if !asked(info) || info.trainer().is_none() {
            return Ok(());
        }
        info.count_nodes(job);
        let nodes = info.trainer().map_or(1, |pods| i64::from(pods.count));
        let workers = nodes.saturating_mul(info.node_resources(job).gpus().max(1));
        if job.spec.trainer.is_none() {
            return Ok(());
        }
        if let Some(container) = info.trainer_container_mut() {
            upsert::env(container, upsert::variable(URI, name::head(job)));
            upsert::env(container, upsert::variable(TRACKER_PORT, PORT.to_string()));
            upsert::env(container, upsert::index_variable(TASK));
            upsert::env(container, upsert::variable(WORKERS, workers.to_string()));
            upsert::port(upsert::list(container, "ports"), json!({"containerPort": PORT}));
        }
        Ok(())
    }
}

impl CustomValidation for Xgboost {
    fn validate(
        &self,
        _: &Context<'_>,
        info: &Info,
        _: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if !asked(info) {
            return verdict;
        }
        let env = new.spec.trainer.as_ref().and_then(|trainer| trainer.env.as_deref());
        for (index, variable) in env.unwrap_or_default().iter().enumerate() {
            let name = variable.name.as_str();
            if [URI, TRACKER_PORT, TASK, WORKERS].contains(&name) {
                let field = format!("spec.trainer.env[{index}]");
                let why = format!("{name} is reserved for the XGBoost runtime");
                let error = FieldError::forbidden(field, why);
                verdict.errors.push(error.remedy("drop it: the runtime sets it"));
            }
        }
        verdict
    }
}

fn asked(info: &Info) -> bool {
    info.ml().is_some_and(|ml| ml.xgboost.is_some())
}
