//! JobSet: where pods are reached, the JobSet itself, and how far it is.

mod validate;

use std::sync::Arc;

use muster_api::job_set::JobSet;
use muster_api::names::{
    DATASET_INITIALIZER, JOB_SET_API, JOB_SET_GROUP, MODEL_INITIALIZER, NODE, TRAINER,
};
use muster_api::train_job::Source;
use muster_api::{TrainJob, TrainJobStatus};
use serde_json::{Map, Value, json};

use super::{
    ComponentBuilder, Context, CustomValidation, Fault, Plugin, PodNetwork, StatusOfJob, Verdict,
    Watch, WatchExtension,
};
use crate::info::Info;
use crate::pod_set::{Endpoints, PodSet};
use crate::reconcile::is_finished;
use crate::registry::Registry;
use crate::{name, status, upsert};

/// Builds the JobSet and reads the job's status from it.
pub struct JobSetPlugin;

// === impl JobSetPlugin ===

impl Plugin for JobSetPlugin {
    fn name(&self) -> &'static str {
        "JobSet"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_network.push(self.clone());
        at.builders.push(self.clone());
        at.validators.push(self.clone());
        at.watchers.push(self.clone());
        at.status = Some(self);
    }
}

impl PodNetwork for JobSetPlugin {
    fn identify_pod_network(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let network = info.rest.get("network").and_then(|network| network.get("subdomain"));
        let domain = network.and_then(Value::as_str).unwrap_or(job.name()).to_owned();
        for pods in &mut info.pod_sets {
            pods.endpoints = Endpoints {
                prefix: format!("{}-{}", job.name(), pods.name),
                domain: domain.clone(),
                jobs: pods.replicas(),
                pods: pods.count,
            };
        }
        Ok(())
    }
}

impl ComponentBuilder for JobSetPlugin {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let there = cx.cluster.job_set(job.namespace(), job.name());
        // What runs is never changed.
        if there.is_some_and(|there| !there.is_suspended() && !job.is_suspended()) {
            return Ok(Vec::new());
        }
        let mut spec = info.rest.clone();
        let jobs: Vec<Value> =
            info.pod_sets.iter().map(|pods| replicated_job(info, job, pods)).collect();
        if !jobs.is_empty() {
            spec.insert("replicatedJobs".to_owned(), Value::Array(jobs));
        }
        spec.insert("suspend".to_owned(), job.spec.suspend.unwrap_or_default().into());
        let mut metadata = name::metadata(job, job.name());
        for (key, marks) in [("labels", &info.labels), ("annotations", &info.annotations)] {
            if !marks.is_empty() {
                metadata[key] = json!(marks);
            }
        }
        Ok(vec![json!({
            "apiVersion": JOB_SET_API, "kind": "JobSet", "metadata": metadata, "spec": spec,
        })])
    }
}

impl CustomValidation for JobSetPlugin {
    fn validate(
        &self,
        cx: &Context<'_>,
        info: &Info,
        old: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict {
        Verdict { warnings: Vec::new(), errors: validate::errors(cx, info, old, new) }
    }
}

impl StatusOfJob for JobSetPlugin {
    fn status(
        &self,
        cx: &Context<'_>,
        job: &TrainJob,
        made: bool,
    ) -> Result<Option<TrainJobStatus>, Fault> {
        match cx.cluster.job_set(job.namespace(), job.name()) {
            Some(job_set) => Ok(Some(status::from_job_set(job, &job_set))),
            // One that is made in this pass has no status yet.
            None if made => Ok(Some(status::from_job_set(job, &JobSet::default()))),
            // One of a finished job may have been cleared away.
            None if is_finished(job) => Ok(None),
            None => Err(Fault::new(format!("jobsets.{JOB_SET_GROUP} {:?} not found", job.name()))),
        }
    }
}

impl WatchExtension for JobSetPlugin {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned(JOB_SET_API, "JobSet")]
    }
}

/// One job of the JobSet, with all that stages have said and what the job itself says last.
fn replicated_job(info: &Info, job: &TrainJob, pods: &PodSet) -> Value {
    let mut pods = pods.clone();
    let count = pods.count;
    let spec = pods.job_spec_mut();
    spec.insert("parallelism".to_owned(), count.into());
    spec.insert("completions".to_owned(), count.into());
    pods.settle();
    let initializer = job.spec.initializer.as_ref();
    for (step, source) in [
        (DATASET_INITIALIZER, initializer.and_then(|initializer| initializer.dataset.as_ref())),
        (MODEL_INITIALIZER, initializer.and_then(|initializer| initializer.model.as_ref())),
    ] {
        if pods.is(step) {
            pods.job.insert("replicas".to_owned(), 1.into());
            if let (Some(source), Some(container)) = (source, pods.container_mut(step)) {
                initialize(container, source);
            }
        }
    }
    let trains = pods.is(TRAINER);
    if trains {
        pods.job.insert("replicas".to_owned(), 1.into());
        if let Some(container) = pods.node_mut() {
            train(container, info, job);
        }
    }
    let mpi = info.ml().and_then(|ml| ml.mpi.as_ref());
    let launcher_trains = mpi.is_some_and(|mpi| mpi.run_launcher_as_node == Some(true));
    if (trains || (launcher_trains && pods.name == NODE))
        && let Some(container) = pods.node_mut()
    {
        let variables = job.spec.trainer.as_ref().and_then(|trainer| trainer.env.as_ref());
        upsert::job_env(container, variables);
    }
    pods.mark("labels", &info.pod_labels);
    pods.mark("annotations", &info.pod_annotations);
    Value::Object(pods.job)
}

/// What is fetched.
fn initialize(container: &mut Map<String, Value>, source: &Source) {
    if let Some(uri) = &source.storage_uri {
        upsert::env(container, upsert::variable("STORAGE_URI", uri.as_str()));
    }
    upsert::job_env(container, source.env.as_ref());
    if let Some(secret) = &source.secret_ref {
        let name = secret.name.as_deref().unwrap_or_default();
        upsert::list(container, "envFrom").push(json!({"secretRef": {"name": name}}));
    }
}

/// Image, command and arguments of the container that trains.
fn train(container: &mut Map<String, Value>, info: &Info, job: &TrainJob) {
    let Some(trainer) = &job.spec.trainer else { return };
    if let Some(image) = &trainer.image {
        container.insert("image".to_owned(), json!(image));
    }
    let args = trainer.args.as_ref().filter(|_| !info.args_taken);
    let command = info.command.as_ref().or(trainer.command.as_ref());
    for (key, words) in [("command", command), ("args", args)] {
        match words {
            Some(words) if words.is_empty() => {
                container.remove(key);
            }
            Some(words) => {
                container.insert(key.to_owned(), json!(words));
            }
            None => {}
        }
    }
}
