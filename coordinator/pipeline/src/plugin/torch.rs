//! Torch: what torchrun reads (`PET_*`), and the command of TorchTune.

mod tune;

use std::fmt;
use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::PORT;
use muster_api::runtime::{EnvTarget, TorchPolicy};
use muster_kube::FieldError;
use serde_json::{Value, json};

use super::{Context, CustomValidation, EnforceMlPolicy, Fault, Plugin, Verdict};
use crate::info::Info;
use crate::registry::Registry;
use crate::{name, upsert};

const NODES: &str = "PET_NNODES";
const PROCESSES: &str = "PET_NPROC_PER_NODE";
const RANK: &str = "PET_NODE_RANK";
const MASTER: &str = "PET_MASTER_ADDR";
const MASTER_PORT: &str = "PET_MASTER_PORT";

/// Torch.
pub struct Torch;

/// How many processes a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processes {
    /// torchrun counts GPUs.
    Auto,
    /// So many.
    Count(i64),
}

// === impl Torch ===

impl Plugin for Torch {
    fn name(&self) -> &'static str {
        "Torch"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self.clone());
        at.validators.push(self);
    }
}

impl EnforceMlPolicy for Torch {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let runtime = info.runtime.clone();
        let Some(policy) = runtime.spec.ml_policy.as_ref().and_then(|ml| ml.torch.as_ref()) else {
            return Ok(());
        };
        info.count_nodes(job);
        let count = info.trainer().map_or(1, |pods| pods.count);
        let resources = info.node_resources(job);
        let gpus = resources.gpus();
        let mut processes = Processes::of(job);
        if processes == Processes::Auto && gpus == 0 {
            processes = Processes::Count(resources.cpus().max(1));
        }
        let tune = tune::is_asked(job);
        let variables = [
            upsert::variable(NODES, count.to_string()),
            upsert::variable(PROCESSES, processes.to_string()),
            upsert::index_variable(RANK),
            upsert::variable(MASTER, name::head(job)),
            upsert::variable(MASTER_PORT, PORT.to_string()),
        ];
        if let Some(trainer) = &job.spec.trainer
            && let Some(container) = info.trainer_container_mut()
        {
            upsert::job_env(container, trainer.env.as_ref());
            let own = if tune { 3 } else { variables.len() };
            for variable in variables.iter().take(own) {
                upsert::env(container, variable.clone());
            }
            upsert::port(upsert::list(container, "ports"), json!({"containerPort": PORT}));
            if tune {
                info.command = Some(tune::command(info, job, count, processes, gpus));
            }
        }
        for (target, container) in targets(policy) {
            inject(info, target, container, &variables)?;
        }
        Ok(())
    }
}

impl CustomValidation for Torch {
    fn validate(
        &self,
        _: &Context<'_>,
        info: &Info,
        _: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(policy) = info.ml().and_then(|ml| ml.torch.as_ref()) else { return verdict };
        for (target, container) in targets(policy) {
            let pods = info.pod_set(&target.job_name);
            let found = pods.is_some_and(|pods| {
                let all = pods.containers().iter().chain(pods.init_containers());
                all.into_iter().any(|there| crate::pod_set::called(there, container))
            });
            if !found {
                let value = json!(new.spec.runtime_ref);
                let error =
                    FieldError::invalid("spec.runtimeRef", value, unknown(target, container));
                verdict.errors.push(error.remedy("correct envInjection of the runtime"));
            }
        }
        verdict.errors.extend(reserved(new, &[NODES, PROCESSES, RANK, MASTER, MASTER_PORT]));
        if tune::is_asked(new) {
            verdict.errors.extend(tune::validate(info, new));
        }
        verdict
    }
}

// === impl Processes ===

impl Processes {
    /// What the job says.
    fn of(job: &TrainJob) -> Self {
        let said = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_proc_per_node);
        said.map_or(Self::Auto, |count| Self::Count(i64::from(count)))
    }
}

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

/// An error if the job sets variables that the plugin sets.
pub(super) fn reserved(job: &TrainJob, names: &[&str]) -> Option<FieldError> {
    let env = job.spec.trainer.as_ref().and_then(|trainer| trainer.env.as_deref())?;
    let mut set: Vec<&str> = env
        .iter()
        .map(|variable| variable.name.as_str())
        .filter(|name| names.contains(name))
        .collect();
    if set.is_empty() {
        return None;
    }
    set.sort_unstable();
    set.dedup();
    let why = format!("must not have reserved envs, invalid envs configured: [{}]", set.join(" "));
    let error = FieldError::invalid("spec.trainer.env", json!(env), why);
    Some(error.remedy("drop them: the runtime sets them"))
}

fn targets(policy: &TorchPolicy) -> impl Iterator<Item = (&EnvTarget, &str)> {
    let targets =
        policy.env_injection.iter().flat_map(|injection| injection.targets.iter().flatten());
    targets
        .flat_map(|target| target.container_names.iter().map(move |name| (target, name.as_str())))
}

fn inject(
    info: &mut Info,
    target: &EnvTarget,
    container: &str,
    variables: &[Value],
) -> Result<(), Fault> {
    let pods = info.pod_set_mut(&target.job_name);
    let found = pods.and_then(|pods| pods.any_container_mut(container));
    let found = found.ok_or_else(|| Fault(unknown(target, container)))?;
    for variable in variables {
        upsert::env(found, variable.clone());
    }
    Ok(())
}

fn unknown(target: &EnvTarget, container: &str) -> String {
    let job = &target.job_name;
    format!(
        "envInjection target podSet {job:?} container {container:?} not found in runtime template"
    )
}
