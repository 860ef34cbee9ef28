//! The JobSet controller: groups of Jobs that start, restart and end together.
//!
//! Follows v0.10.1 of the original. [`default_jobset`], [`validate_create`] and
//! [`validate_update`] are what its webhooks do; the API calls them in-process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::Value;

use super::cache::{Cache, Key, key_of};
use super::json;
use super::kind::{JOB_SETS, JOBS, SERVICES};
use super::queue::Queue;
use super::rest::{EventText, Propagation, Rest, ignore_missing, status_code};
use decide::{Plan, Resume};

pub use admit::{default_jobset, validate_create, validate_update};

mod admit;
mod build;
mod decide;
mod names;

/// The CustomResourceDefinition of JobSets, as YAML.
pub const DEFINITION: &str = include_str!("../../assets/jobset-crd.yaml");

pub(crate) struct JobSetController {
    rest: Rest,
    sets: Arc<Cache>,
    services: Arc<Cache>,
    /// Jobs by the uid of the JobSet that controls them, then by name.
    jobs: Mutex<HashMap<String, BTreeMap<String, Arc<Value>>>>,
    queue: Arc<Queue<Key>>,
}

const WORKERS: usize = 4;
const AT_ONCE: usize = 50;

fn owner_uid(object: &Value) -> Option<&str> {
    json::controller_uid(object, &JOB_SETS.group, &JOB_SETS.kind)
}

// === impl JobSetController ===

impl JobSetController {
    /// Registers with the caches and starts the workers.
    pub fn start(rest: &Rest) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            sets: rest.cache(&JOB_SETS),
            services: rest.cache(&SERVICES),
            jobs: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let jobs = rest.cache(&JOBS);
        let to = controller.clone();
        controller.sets.on_change(move |_, after| {
            if let Some(set) = after {
                to.queue.add(key_of(set));
            }
        });
        let to = controller.clone();
        jobs.on_change(move |before, after| to.job_changed(before, after));
        let to = controller.clone();
        controller.services.on_change(move |before, after| {
            if let Some(service) = after.or(before)
                && owner_uid(service).is_some()
            {
                to.enqueue_owner(service);
            }
        });
        let started = controller.clone();
        rest.tasks().spawn(async move {
            started.sets.synced().await;
            jobs.synced().await;
            started.services.synced().await;
            let queue = started.queue.clone();
            queue.serve(WORKERS, "jobset", move |key| {
                let controller = started.clone();
                async move { controller.reconcile(&key).await }
            });
        });
    }

    fn job_changed(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let mut owned = self.jobs.lock();
        if let Some(old) = before
            && let Some(uid) = owner_uid(old)
            && after.and_then(|job| owner_uid(job)) != Some(uid)
            && let Some(jobs) = owned.get_mut(uid)
        {
            jobs.remove(meta::name(old));
            if jobs.is_empty() {
                owned.remove(uid);
            }
        }
        if let Some(job) = after
            && let Some(uid) = owner_uid(job)
        {
            let jobs = owned.entry(uid.to_owned()).or_default();
            jobs.insert(meta::name(job).to_owned(), job.clone());
        }
        drop(owned);
        for job in [before, after].into_iter().flatten() {
            if owner_uid(job).is_some() {
                self.enqueue_owner(job);
            }
        }
    }

    fn enqueue_owner(&self, object: &Value) {
        if let Some(owner) = json::controller(object) {
            let name = json::text(owner, "/name").to_owned();
            self.queue.add((meta::namespace(object).to_owned(), name));
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(set) = self.sets.get(&key.0, &key.1) else { return Ok(()) };
        let jobs: Vec<Arc<Value>> = {
            let owned = self.jobs.lock();
            let jobs = owned.get(meta::uid(&set));
            jobs.map(|jobs| jobs.values().cloned().collect()).unwrap_or_default()
        };
        let has_service = self.services.get(&key.0, build::subdomain(&set)).is_some();
        let plan = decide::decide(&set, &jobs, has_service, self.rest.clock().now());
        self.carry_out(key, &set, plan).await
    }

    async fn carry_out(&self, key: &Key, set: &Arc<Value>, plan: Plan) -> Result<(), kube::Error> {
        let foreground = Some(Propagation::Foreground);
        side_by_side(plan.delete.iter().map(|job| self.rest.delete(&JOBS, job, foreground)))
            .await?;
        if let Some(service) = &plan.service {
            self.create_service(key, set, service).await?;
        }
        side_by_side(plan.create.iter().map(|job| self.create_job(key, job))).await?;
        side_by_side(plan.suspend.iter().map(|job| self.suspend(job))).await?;
        side_by_side(plan.resume.iter().map(|resume| self.resume(resume))).await?;
        if let Some(status) = plan.status {
            let mut object = Value::clone(set);
            object["status"] = status;
            match self.rest.replace(&JOB_SETS, &object, "/status").await {
                Err(error) if status_code(&error) == 404 => return Ok(()),
                outcome => outcome?,
            };
            for event in &plan.events {
                self.rest.event(&JOB_SETS, set, names::COMPONENT, event);
            }
        }
        if let Some(at) = plan.again {
            self.queue.add_at(key.clone(), at);
        }
        if plan.expire {
            self.rest.delete(&JOB_SETS, set, foreground).await?;
        }
        Ok(())
    }

    async fn create_service(
        &self,
        key: &Key,
        set: &Value,
        service: &Value,
    ) -> Result<(), kube::Error> {
        match self.rest.create(&SERVICES, &key.0, service).await {
            // Somebody else's Service of that name will do, as in the original.
            Err(error) if already_exists(&error) => Ok(()),
            Err(error) => {
                let text = EventText::warning("HeadlessServiceCreationFailed", error.to_string());
                self.rest.event(&JOB_SETS, set, names::COMPONENT, &text);
                Err(error)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Makes a Job. Its name may still be taken by our own Job of which the cache does not know
    /// yet; a pass after the watch has caught up sees it.
    async fn create_job(&self, key: &Key, job: &Value) -> Result<(), kube::Error> {
        self.rest.create(&JOBS, &key.0, job).await.map(drop)
    }

    async fn suspend(&self, job: &Value) -> Result<(), kube::Error> {
        let mut wanted = job.clone();
        wanted["spec"]["suspend"] = true.into();
        ignore_missing(self.rest.replace(&JOBS, &wanted, "").await)
    }

    async fn resume(&self, resume: &Resume) -> Result<(), kube::Error> {
        let mut wanted = resume.wanted.clone();
        if !json::text(&resume.job, "/status/startTime").is_empty() {
            // The template of a started Job may not change, so it is made unstarted first.
            let mut unstarted = Value::clone(&resume.job);
            if let Some(status) = unstarted["status"].as_object_mut() {
                status.remove("startTime");
            }
            let now = self.rest.replace(&JOBS, &unstarted, "/status").await?;
            wanted["metadata"]["resourceVersion"] = meta::text(&now, "resourceVersion").into();
        }
        ignore_missing(self.rest.replace(&JOBS, &wanted, "").await)
    }
}

fn already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

async fn side_by_side<F>(requests: impl Iterator<Item = F>) -> Result<(), kube::Error>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    let requests: Vec<F> = requests.collect();
    futures::stream::iter(requests)
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}
