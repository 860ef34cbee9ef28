//! One look at a job: what is there is handed to the operator, and what it says is done.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod as ApiPod, Service};
use kube::api::Api;
use muster_dijob::api::{Status, phase};
use muster_dijob::operator::{self, Event, Remnants, ServiceSeen, Step};
use muster_dijob::pod::Pod;
use tokio::time::Instant;

use super::kinds::{self, Job};
use super::{Key, Outlets, Sources};
use crate::watch::is_newer;
use crate::write::WriteError;

/// A service that we have made should be seen after this long.
const DOUBT: Duration = Duration::from_secs(10);

/// A job that was looked at as it was before is looked at again after this.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What is known of a job between two looks.
pub struct Memory {
    remnants: Remnants,
    /// The job as we have written it last.
    written: Option<Arc<Job>>,
    /// Services that we have made, and are not seen yet.
    made: HashMap<String, Instant>,
    /// Uids of services that we have deleted, and are still seen.
    deleted: HashSet<String>,
}

/// How a look has ended.
pub enum Ended {
    /// The job is not there.
    Gone,
    /// All is done; when to look again.
    Done(Option<Duration>),
    /// Not all could be done.
    Failed,
    /// Nothing may be written any more.
    Deposed,
}

// === impl Memory ===

impl Memory {
    /// Of a job that was never looked at.
    pub fn new(patience: Duration) -> Self {
        let remnants = Remnants::new(patience);
        Self { remnants, written: None, made: HashMap::new(), deleted: HashSet::new() }
    }

    /// The newest of what is seen and what we have written.
    fn newest(&mut self, seen: Arc<Job>) -> Arc<Job> {
        match self.written.take() {
            Some(written)
                if written.0.metadata.uid == seen.0.metadata.uid
                    && is_newer(written.version(), seen.version()) =>
            {
                self.written = Some(Arc::clone(&written));
                written
            }
            _ => seen,
        }
    }

    /// Services as they should be by now.
    fn services(&mut self, mut seen: Vec<ServiceSeen>, job: &str) -> Vec<ServiceSeen> {
        self.deleted.retain(|uid| seen.iter().any(|service| service.uid == *uid));
        seen.retain(|service| !self.deleted.contains(&service.uid));
        self.made.retain(|name, since| {
            since.elapsed() < DOUBT && !seen.iter().any(|service| service.name == *name)
        });
        seen.extend(self.made.keys().map(|name| ServiceSeen {
            name: name.clone(),
            job: job.to_owned(),
            // It is known by its name alone: it is not deleted before it is seen.
            terminating: true,
            ..ServiceSeen::default()
        }));
        seen
    }
}

/// Looks at a job.
pub async fn look(
    key: &Key,
    mut memory: Memory,
    sources: &Sources,
    outlets: &Outlets,
) -> (Memory, Ended) {
    let Some(seen) = sources.jobs.named(&key.0, &key.1) else { return (memory, Ended::Gone) };
    let job = memory.newest(seen);
    if job.0.metadata.deletion_timestamp.is_some() {
        // What it has goes with it.
        return (memory, Ended::Done(None));
    }
    let since = Instant::now();
    let ended = match handle(key, &job, &mut memory, sources, outlets).await {
        Ok(ended) => ended,
        Err(WriteError::Deposed(_)) => Ended::Deposed,
        Err(error) => {
            outlets.metrics.failed(error.reason());
            tracing::warn!(
                namespace = key.0,
                job = key.1,
                reason = error.reason(),
                "a DIJob: {error}"
            );
            Ended::Failed
        }
    };
    outlets.metrics.looked(since.elapsed());
    (memory, ended)
}

async fn handle(
    key: &Key,
    job: &Arc<Job>,
    memory: &mut Memory,
    sources: &Sources,
    outlets: &Outlets,
) -> Result<Ended, WriteError> {
    let now = jiff::Timestamp::now();
    let read = match job.read() {
        Ok(read) => read,
        Err(why) => {
            let name = format!("{}/{}", key.0, key.1);
            if let Some((status, event)) = operator::unreadable(job.status(), &name, &why, now) {
                write_status(key, job, &status, memory, outlets).await?;
                say(outlets, job, event);
            }
            return Ok(Ended::Done(None));
        }
    };
    let pods = sources.cache.pods_of(&key.0, &read.label());
    let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
    let services = sources.cache.services_of(&key.0, &read.label());
    let services = memory.services(services, read.uid());
    let make = &outlets.settings.make;
    let pass = operator::reconcile(&read, &pods, &services, &mut memory.remnants, make, now);
    let makes_pods = pass.steps.iter().any(|step| matches!(step, Step::CreatePod(_)));
    if makes_pods && is_behind(key, job, memory, outlets).await? {
        return Ok(Ended::Done(Some(AT_ONCE)));
    }
    for step in &pass.steps {
        match act(key, step, memory, sources, outlets).await {
            Ok(true) => say(outlets, job, step.done()),
            Ok(false) => {}
            Err(error) => {
                if !matches!(error, WriteError::Deposed(_)) {
                    say(outlets, job, step.failed(&error.to_string()));
                }
                // What is known by now is written all the same; the rest waits.
                if pass.changed {
                    write_status(key, job, &pass.status, memory, outlets).await?;
                    pass.events.into_iter().for_each(|event| say(outlets, job, event));
                }
                return Err(error);
            }
        }
    }
    if pass.changed {
        write_status(key, job, &pass.status, memory, outlets).await?;
    }
    pass.events.into_iter().for_each(|event| say(outlets, job, event));
    if let Some(trouble) = pass.trouble {
        outlets.metrics.failed("trouble");
        tracing::warn!(namespace = key.0, job = key.1, reason = "trouble", "a DIJob: {trouble}");
        return Ok(Ended::Failed);
    }
    // A service that is never seen is made again.
    let doubt = (!memory.made.is_empty()).then_some(DOUBT);
    Ok(Ended::Done(pass.again.into_iter().chain(doubt).min()))
}

/// Whether the job has ended by now, or is another one: our picture of it may be older than that of its pods, and what
/// has ended is not begun again.
async fn is_behind(
    key: &Key,
    job: &Job,
    memory: &mut Memory,
    outlets: &Outlets,
) -> Result<bool, WriteError> {
    let Some(live) = live(key, outlets).await? else { return Ok(true) };
    let ended = live.status().is_some_and(|status| phase::is_final(&status.phase));
    let behind = live.0.metadata.uid != job.0.metadata.uid
        || live.0.metadata.deletion_timestamp.is_some()
        || ended;
    if behind {
        memory.written = Some(Arc::new(live));
    }
    Ok(behind)
}

/// The job as the API server has it now.
async fn live(key: &Key, outlets: &Outlets) -> Result<Option<Job>, WriteError> {
    let api = kinds::raw::<Job>(outlets.writer.client().clone(), &key.0);
    let found = outlets.writer.look(&api, &key.1).await?;
    Ok(found.and_then(|found| serde_json::from_value(serde_json::to_value(found).ok()?).ok()))
}

/// Does a step; whether anything has come of it.
async fn act(
    key: &Key,
    step: &Step,
    memory: &mut Memory,
    sources: &Sources,
    outlets: &Outlets,
) -> Result<bool, WriteError> {
    let (writer, namespace) = (&outlets.writer, key.0.as_str());
    let (pods, services) = (
        kinds::raw::<ApiPod>(writer.client().clone(), namespace),
        kinds::raw::<Service>(writer.client().clone(), namespace),
    );
    match step {
        Step::CreatePod(pod) => {
            match writer.create_raw(&pods, &kinds::dynamic(pod.to_value())).await {
                Ok(made) => {
                    outlets.metrics.wrote("create", "Pod");
                    let made = serde_json::to_value(made).unwrap_or_default();
                    // What cannot be read is seen when the watch brings it.
                    if let Ok(made) = serde_json::from_value(made) {
                        sources.cache.made(made);
                    }
                    Ok(true)
                }
                Err(error @ WriteError::Exists { .. }) => {
                    // Ours, and not seen yet; or somebody else's, which must be said.
                    let found = writer.look(&pods, pod.name()).await?;
                    let found = found.and_then(|found| serde_json::to_value(found).ok());
                    let found: Option<Pod> =
                        found.and_then(|found| serde_json::from_value(found).ok());
                    let job = |pod: &Pod| pod.job().map(|owner| owner.uid.clone());
                    match found {
                        Some(found) if job(&found) == job(pod) => {
                            sources.cache.made(found);
                            Ok(false)
                        }
                        Some(_) => Err(error),
                        None => Ok(false),
                    }
                }
                Err(error) => Err(error),
            }
        }
        Step::CreateService(service) => {
            let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let made = writer.create_raw(&services, &kinds::dynamic(service.clone())).await;
            let new = match made {
                Ok(_) => true,
                Err(WriteError::Exists { .. }) => false,
                Err(error) => return Err(error),
            };
            if new {
                memory.made.insert(name, Instant::now());
                outlets.metrics.wrote("create", "Service");
            }
            Ok(new)
        }
        Step::DeletePod(pod) => {
            let how = kinds::this_one(&pod.uid, Some(outlets.settings.grace));
            let gone = gone(writer.delete_raw(&pods, "Pod", &pod.name, &how).await)?;
            outlets.metrics.wrote("delete", "Pod");
            sources.cache.deleted(namespace, &pod.name, &pod.uid);
            Ok(gone)
        }
        Step::DeleteService(service) => {
            let how = kinds::this_one(&service.uid, None);
            let gone = gone(writer.delete_raw(&services, "Service", &service.name, &how).await)?;
            outlets.metrics.wrote("delete", "Service");
            memory.deleted.insert(service.uid.clone());
            memory.made.remove(&service.name);
            Ok(gone)
        }
    }
}

/// Another one has its name by now: the one that was meant is gone.
fn gone(deleted: Result<(), WriteError>) -> Result<bool, WriteError> {
    match deleted {
        Ok(()) => Ok(true),
        Err(WriteError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn write_status(
    key: &Key,
    job: &Job,
    status: &Status,
    memory: &mut Memory,
    outlets: &Outlets,
) -> Result<(), WriteError> {
    let uid = job.0.metadata.uid.clone().unwrap_or_default();
    let api: Api<Job> = Api::namespaced(outlets.writer.client().clone(), &key.0);
    let value = serde_json::to_value(status).unwrap_or_default();
    match outlets.writer.status_at(&api, &key.1, (&uid, job.version()), value).await {
        Ok(written) => {
            outlets.metrics.wrote("status", "DIJob");
            memory.written = Some(Arc::new(written));
            Ok(())
        }
        Err(WriteError::Gone { .. }) => Ok(()),
        Err(error @ WriteError::Conflict { .. }) => {
            // The next look is at the job as it is by now.
            memory.written = live(key, outlets).await?.map(Arc::new);
            Err(error)
        }
        Err(error) => Err(error),
    }
}

fn say(outlets: &Outlets, job: &Job, event: Event) {
    let about = job.reference();
    match event.warning {
        true => outlets.voice.warning(about, event.reason, event.message),
        false => outlets.voice.normal(about, event.reason, event.message),
    }
}
