//! Which kind is grouped how. One line for each kind; one file for each family.

mod aml;
mod batch;
mod deployment;
mod dijob;
mod grove;
mod jobset;
mod knative;
mod kubeflow;
mod lws;
mod modelserving;
mod mpi;
mod plain;
mod pod;
mod pytorch;
mod ray;
mod runai;
mod skip;

use std::sync::Arc;

use crate::base::Context;
use crate::draft::Draft;
use crate::error::{Class, GroupError};
use crate::object::Object;

/// Makes the draft of a group from the top owner and all owners, nearest to the pod first.
pub(crate) type Grouper = fn(&Context<'_>, &Object, &[Arc<Object>]) -> Result<Draft, GroupError>;

const ANY: &str = "*";

const KINDS: &[(&str, &str, &str, Grouper)] = &[
    ("", "v1", "Pod", pod::group),
    ("apps", "v1", "Deployment", deployment::group),
    ("apps", "v1", "StatefulSet", plain::group),
    ("apps", "v1", "ReplicaSet", plain::group),
    ("batch", "v1", "Job", batch::job),
    ("batch", "v1", "CronJob", batch::cron_job),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", jobset::group),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", lws::group),
    // Ours.
    ("workload.serving.volcano.sh", "v1alpha1", "ModelServing", modelserving::group),
    ("workload.kthena.io", "v1alpha1", "ModelServing", modelserving::group),
    ("diengine.opendilab.org", ANY, "DIJob", dijob::group),
    ("trainer.kubeflow.org", "v1alpha1", "TrainJob", skip::group),
    // Kubeflow.
    ("kubeflow.org", "v1", "TFJob", kubeflow::tensorflow),
    ("kubeflow.org", "v1", "XGBoostJob", kubeflow::xgboost),
    ("kubeflow.org", "v1", "JAXJob", kubeflow::jax),
    ("kubeflow.org", "v1", "PyTorchJob", pytorch::group),
    ("kubeflow.org", "v1", "MPIJob", mpi::group),
    ("kubeflow.org", "v2beta1", "MPIJob", mpi::group),
    ("kubeflow.org", "v1beta1", "Notebook", plain::notebook),
    ("kubeflow.org", "v1alpha1", "ScheduledWorkflow", plain::group),
    // Ray.
    ("ray.io", "v1", "RayCluster", ray::cluster),
    ("ray.io", "v1alpha1", "RayCluster", ray::cluster),
    ("ray.io", "v1", "RayJob", ray::job),
    ("ray.io", "v1alpha1", "RayJob", ray::job),
    ("ray.io", "v1", "RayService", ray::service),
    ("ray.io", "v1alpha1", "RayService", ray::service),
    // Grove and Dynamo.
    ("grove.io", "v1alpha1", "PodGangSet", grove::group),
    ("grove.io", "v1alpha1", "PodCliqueSet", grove::group),
    ("nvidia.com", ANY, "DynamoGraphDeployment", skip::group),
    // run.ai.
    ("run.ai", "v1", "RunaiJob", runai::job),
    ("run.ai", ANY, "TrainingWorkload", skip::group),
    ("run.ai", ANY, "InteractiveWorkload", skip::group),
    ("run.ai", ANY, "DistributedWorkload", skip::group),
    ("run.ai", ANY, "InferenceWorkload", skip::group),
    ("run.ai", ANY, "DistributedInferenceWorkload", skip::group),
    // Others.
    ("argoproj.io", "v1alpha1", "Workflow", skip::group),
    ("serving.knative.dev", "v1", "Service", knative::group),
    ("machinelearning.seldon.io", "v1", "SeldonDeployment", plain::group),
    ("machinelearning.seldon.io", "v1alpha2", "SeldonDeployment", plain::group),
    ("kubevirt.io", "v1", "VirtualMachineInstance", plain::group),
    ("workspace.devfile.io", "v1alpha2", "DevWorkspace", plain::group),
    ("tekton.dev", "v1", "PipelineRun", plain::group),
    ("tekton.dev", "v1", "TaskRun", plain::group),
    ("egx.nvidia.io", "v1", "SPOTRequest", plain::spot_request),
    ("amlarc.azureml.com", "v1alpha1", "AmlJob", aml::group),
];

/// How the pods of a top owner are grouped.
pub(crate) fn of(top: &Object) -> Grouper {
    let (group, version) = top.group_and_version();
    exact(group, version, top.kind())
        .or_else(|| exact(group, ANY, top.kind()))
        .unwrap_or(plain::group)
}

/// How a kind of exactly this version is grouped.
pub(crate) fn exact(group: &str, version: &str, kind: &str) -> Option<Grouper> {
    let found = KINDS.iter().find(|(g, v, k, _)| (*g, *v, *k) == (group, version, kind));
    found.map(|(_, _, _, grouper)| *grouper)
}

/// The kinds that have rules of their own: group, version and kind. `*` is any version.
pub fn known() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    KINDS.iter().map(|(group, version, kind, _)| (*group, *version, *kind))
}

/// A number as PodGroups can say it.
fn int32(number: i64, object: &Object, field: &str) -> Result<i32, GroupError> {
    i32::try_from(number).map_err(|_| {
        GroupError::new(
            Class::NumberTooLarge,
            object.shown(),
            field,
            format!("{number} does not fit in 32 bits"),
            "ask for fewer",
        )
    })
}

/// A decimal number as Go reads it: digits with or without a sign.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}
