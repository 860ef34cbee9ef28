//! What the webhooks refuse: TrainJobs by their plugins, runtimes by what their steps need.

use muster_api::TrainJob;
use muster_api::names::{
    DATASET_INITIALIZER, DEPRECATED, MODEL_INITIALIZER, NODE, SUPPORT, TRAINER,
};
use muster_kube::FieldError;

use crate::info::Info;
use crate::plugin::{Context, Verdict};
use crate::pod_set::{PodSet, called};
use crate::reconcile::missing;
use crate::registry::Registry;
use crate::runtime::{Runtime, RuntimeKind};

const POLICY: &str = "See runtime deprecation policy: \
    https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy";

/// Why a TrainJob is refused without looking further: there is no such kind of runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported runtime: {0}")]
pub struct Unsupported(pub String);

/// What is wrong with a TrainJob that is created, or updated from `old`. The runtime is the one that is there now.
pub fn train_job(
    job: &TrainJob,
    old: Option<&TrainJob>,
    cx: &Context<'_>,
    registry: &Registry,
) -> Result<Verdict, Unsupported> {
    let reference = &job.spec.runtime_ref;
    let kind = RuntimeKind::of(reference).ok_or_else(|| Unsupported(reference.key()))?;
    let Some(runtime) = cx.cluster.runtime(kind, job.namespace(), &reference.name) else {
        let (field, said) = match kind {
            RuntimeKind::Cluster => ("spec.RuntimeRef", "clusterTrainingRuntime"),
            RuntimeKind::Namespaced => ("spec.runtimeRef", "trainingRuntime"),
        };
        let missing = missing(kind, &reference.name);
        let why =
            format!("{missing}: specified {said} must be created before the TrainJob is created");
        let value = serde_json::to_value(reference).unwrap_or_default();
        let error = FieldError::invalid(field, value, why)
            .remedy("create the runtime first, or name one that is there");
        return Ok(Verdict { warnings: Vec::new(), errors: vec![error] });
    };
    let mut warnings = deprecated(&runtime, "Referenced ClusterTrainingRuntime");
    let info = Info::new(&runtime, job);
    let mut verdict = registry.validate(cx, &info, old, job);
    warnings.append(&mut verdict.warnings);
    Ok(Verdict { warnings, errors: verdict.errors })
}

/// What is wrong with a runtime that is created; for a ClusterTrainingRuntime also when it is updated.
pub fn runtime(runtime: &Runtime) -> Verdict {
    let mut errors = Vec::new();
    for (index, job) in runtime.jobs.iter().enumerate() {
        let Some(job) = job.as_object() else { continue };
        let pods = PodSet::new(job.clone());
        let container = match pods.ancestor.as_deref() {
            Some(TRAINER) => NODE,
            Some(DATASET_INITIALIZER) => DATASET_INITIALIZER,
            Some(MODEL_INITIALIZER) => MODEL_INITIALIZER,
            _ => continue,
        };
        let at = format!("spec.template.spec.replicatedJobs[{index}]");
        if pods.replicas() != 1 {
            let error =
                FieldError::invalid(format!("{at}.replicas"), pods.replicas(), "always must be 1");
            errors.push(error.remedy("set replicas to 1; say numNodes in mlPolicy instead"));
        }
        if !pods.containers().iter().any(|there| called(there, container)) {
            let step = pods.ancestor.as_deref().unwrap_or_default();
            let field = format!("{at}.template.spec.template.spec.containers");
            let why = format!("must contain the required container for the ancestor: {step}");
            let error = FieldError::invalid(field, container, why);
            errors.push(error.remedy("name the container of this step as the step demands"));
        }
    }
    Verdict { warnings: deprecated(runtime, "ClusterTrainingRuntime"), errors }
}

/// A warning for runtimes of all namespaces that are no longer cared for.
fn deprecated(runtime: &Runtime, what: &str) -> Vec<String> {
    let labels = runtime.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(SUPPORT)).map(String::as_str);
    if runtime.kind != RuntimeKind::Cluster || label != Some(DEPRECATED) {
        return Vec::new();
    }
    let name = runtime.name();
    vec![format!(
        "{what} {name:?} is deprecated and will be removed in a future release of Kubeflow Trainer. {POLICY}"
    )]
}
