//! What the server knows of the cluster.

use std::sync::Arc;

use crate::api::{DIJob, Template, phase};
use crate::make::Settings;
use crate::pod::Pod;

use super::answer::Refusal;

/// What the server knows of the cluster. What it has just made is there, what it has just deleted is not.
pub trait View {
    /// A pod of a job.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>>;
    /// All pods of jobs, of one namespace or of all, by name.
    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>>;
    /// All pods that carry the name of this job, by name.
    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>>;
    /// The job of this name.
    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>>;
    /// The template of aggregators.
    fn aggregator(&self) -> Option<Arc<Template>>;
    /// How many of a device each node has to give.
    fn devices(&self, resource: &str) -> Vec<u64>;
    /// Whether this very program has deleted a pod of this name lately.
    fn was_deleted(&self, namespace: &str, name: &str) -> bool;
}

/// A pod and the job that it is of, if that is still there.
pub fn resolve(
    view: &impl View,
    namespace: &str,
    name: &str,
) -> Result<(Arc<Pod>, Arc<DIJob>), Refusal> {
    let absent = || Refusal::not_found(format!("pod: {namespace}/{name} not exists in cache"));
    // Pods that are no job's are none of ours.
    let pod = view.pod(namespace, name).filter(|pod| pod.job().is_some()).ok_or_else(absent)?;
    let owner = pod.job().ok_or_else(absent)?;
    let Some(job) = view.job(namespace, &owner.name) else {
        return Err(Refusal::not_found(format!(
            "DIJob: {namespace}/{} not exists in cache",
            owner.name
        )));
    };
    if job.uid() != owner.uid {
        return Err(Refusal::not_found(format!("coordinator {name} is owned by stale DIJob")));
    }
    Ok((pod, job))
}

/// Refuses to make pods for a job that has ended: nobody would delete them.
pub fn unfinished(job: &DIJob) -> Result<(), Refusal> {
    match job.phase() {
        ended if phase::is_final(ended) => Err(Refusal::bad(format!(
            "DIJob {} is {ended}: a job that has ended gets no replicas; create it anew",
            job.full_name()
        ))),
        _ => Ok(()),
    }
}

/// The pods of a job that are not on their way out, by name.
pub fn replicas(view: &impl View, job: &DIJob) -> Vec<Arc<Pod>> {
    let mut pods = view.pods_of(job.namespace(), &job.label());
    pods.retain(|pod| {
        !pod.is_terminating() && pod.job().is_some_and(|owner| owner.uid == job.uid())
    });
    pods
}

/// The DDP learners of an aggregator, by name.
pub fn learners_of(view: &impl View, job: &DIJob, aggregator: &str) -> Vec<Arc<Pod>> {
    let mut pods = replicas(view, job);
    pods.retain(|pod| {
        pod.role() == Some(crate::role::Role::DdpLearner) && pod.aggregator() == Some(aggregator)
    });
    pods
}

/// The template of aggregators, which must be there.
pub fn aggregator(view: &impl View, settings: &Settings) -> Result<Arc<Template>, Refusal> {
    let Settings { aggregator_namespace, aggregator_name, .. } = settings;
    view.aggregator().ok_or_else(|| {
        Refusal::not_found(format!(
            "AGConfig: {aggregator_namespace}/{aggregator_name} not exists in cache"
        ))
    })
}
