//! The Job controller: makes pods until enough of them have succeeded or too many failed.
//!
//! ```text
//! Job, Pod watch -> pods by Job uid -> decide -> create, delete, status, finalizers
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::Value;

use super::cache::{Cache, Key, key_of};
use super::json;
use super::kind::{JOBS, PODS};
use super::queue::Queue;
use super::rest::{Propagation, Rest, namespace_terminating, status_code};
use decide::{Backoff, Plan, Removal};
use pod::JobPod;

mod decide;
mod indexes;
mod names;
mod pod;
mod policy;
mod template;

pub(crate) struct JobController {
    rest: Rest,
    jobs: Arc<Cache>,
    index: Mutex<Index>,
    queue: Arc<Queue<Key>>,
}

#[derive(Default)]
struct Index {
    /// Pods by the uid of the Job that controls them, then by name.
    pods: HashMap<String, BTreeMap<String, Arc<JobPod>>>,
    /// Back-off by Job uid.
    backoff: HashMap<String, Backoff>,
}

const WORKERS: usize = 4;
const AT_ONCE: usize = 32;
/// A burst of pod changes is one pass.
const GATHER: Duration = Duration::from_millis(20);

// === impl JobController ===

impl JobController {
    /// Registers with the caches and starts the workers.
    pub fn start(rest: &Rest) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            jobs: rest.cache(&JOBS),
            index: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let pods = rest.cache(&PODS);
        let to = controller.clone();
        controller.jobs.on_change(move |before, after| to.job_changed(before, after));
        let to = controller.clone();
        pods.on_change(move |before, after| to.pod_changed(before, after));
        let started = controller.clone();
        rest.tasks().spawn(async move {
            started.jobs.synced().await;
            pods.synced().await;
            let queue = started.queue.clone();
            queue.serve(WORKERS, "job", move |key| {
                let controller = started.clone();
                async move { controller.reconcile(&key).await }
            });
        });
    }

    fn job_changed(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        if let (Some(gone), None) = (before, after) {
            // Pods that the Job left behind lose their finalizer, or they could never go.
            self.index.lock().backoff.remove(meta::uid(gone));
            self.queue.add(key_of(gone));
            self.release(meta::uid(gone));
        } else if let Some(job) = after {
            self.queue.add(key_of(job));
        }
    }

    fn pod_changed(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let Some(pod) = after.or(before) else { return };
        let owner = json::controller_uid(pod, "batch", "Job").map(str::to_owned);
        let was = before.and_then(|p| json::controller_uid(p, "batch", "Job"));
        {
            let mut index = self.index.lock();
            if let Some(was) = was.filter(|was| after.is_none() || owner.as_deref() != Some(was))
                && let Some(pods) = index.pods.get_mut(was)
            {
                pods.remove(meta::name(pod));
                if pods.is_empty() {
                    index.pods.remove(was);
                }
            }
            if let (Some(owner), Some(pod)) = (&owner, after) {
                let pods = index.pods.entry(owner.clone()).or_default();
                pods.insert(meta::name(pod).to_owned(), Arc::new(JobPod::read(pod)));
            }
        }
        if let Some(owner) = json::controller(pod).filter(|_| owner.is_some()) {
            let key = (meta::namespace(pod).to_owned(), json::text(owner, "/name").to_owned());
            self.queue.add_soon(key, GATHER);
        } else if let Some(pod) = after.filter(|p| is_stray(p)) {
            self.release_pod(pod);
        }
    }

    fn pods_of(&self, uid: &str) -> Vec<Arc<JobPod>> {
        let index = self.index.lock();
        index.pods.get(uid).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }

    /// Frees the pods of a Job that is gone.
    fn release(&self, uid: &str) {
        for pod in self.pods_of(uid) {
            if pod.tracked {
                self.release_pod(&pod.object);
            }
        }
    }

    fn release_pod(&self, pod: &Arc<Value>) {
        let (rest, pod) = (self.rest.clone(), pod.clone());
        self.rest.tasks().spawn(async move {
            let mut wait = Duration::from_millis(5);
            let mut pod = pod;
            while rest.drop_finalizer(&PODS, &pod, names::TRACKING).await.is_err() {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(1));
                match rest.get(&PODS, meta::namespace(&pod), meta::name(&pod)).await {
                    Ok(live) if meta::uid(&live) == meta::uid(&pod) => pod = Arc::new(live),
                    Ok(_) => return,
                    Err(error) if status_code(&error) == 404 => return,
                    Err(_) => {}
                }
            }
        });
    }

    async fn reconcile(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(job) = self.jobs.get(&key.0, &key.1) else {
            self.release_orphans(key);
            return Ok(());
        };
        let uid = meta::uid(&job).to_owned();
        let pods = self.pods_of(&uid);
        let backoff = self.index.lock().backoff.get(&uid).copied().unwrap_or_default();
        let refs: Vec<&JobPod> = pods.iter().map(|p| &**p).collect();
        let plan = decide::decide(&job, &refs, backoff, self.rest.clock().now());
        self.carry_out(key, &job, &pods, plan).await
    }

    /// Pods whose Job of this name is gone while another controller restarted.
    fn release_orphans(&self, key: &Key) {
        let index = self.index.lock();
        let orphans: Vec<Arc<Value>> = (index.pods.values())
            .flat_map(BTreeMap::values)
            .filter(|pod| {
                pod.tracked
                    && meta::namespace(&pod.object) == key.0
                    && json::controller(&pod.object)
                        .is_some_and(|owner| json::text(owner, "/name") == key.1)
            })
            .map(|pod| pod.object.clone())
            .collect();
        drop(index);
        for pod in &orphans {
            self.release_pod(pod);
        }
    }

    async fn carry_out(
        &self,
        key: &Key,
        job: &Arc<Value>,
        pods: &[Arc<JobPod>],
        plan: Plan,
    ) -> Result<(), kube::Error> {
        if let Some(at) = plan.again {
            self.queue.add_at(key.clone(), at);
        }
        let by_name: HashMap<&str, &JobPod> = pods.iter().map(|p| (&*p.name, &**p)).collect();
        let deletes = plan.delete.iter().filter_map(|removal| {
            by_name.get(removal.name.as_str()).map(|pod| self.remove(pod, removal))
        });
        all(deletes).await?;
        let creates = plan.create.iter().map(|new| async {
            let pod = template::build(job, new);
            match self.rest.create(&PODS, &key.0, &pod).await {
                Err(error) if namespace_terminating(&error) => Ok(()),
                outcome => outcome.map(drop),
            }
        });
        all(creates).await?;
        let mut wrote = false;
        if let Some(status) = &plan.status {
            let mut object = Value::clone(job);
            object["status"] = status.clone();
            match self.rest.replace(&JOBS, &object, "/status").await {
                Err(error) if status_code(&error) == 404 => return Ok(()),
                outcome => outcome?,
            };
            wrote = true;
            self.index.lock().backoff.insert(meta::uid(job).to_owned(), plan.backoff);
            for event in &plan.events {
                self.rest.event(&JOBS, job, names::COMPONENT, event);
            }
        }
        let untracks = plan.untrack.iter().filter_map(|name| {
            by_name
                .get(name.as_str())
                .map(|pod| self.rest.drop_finalizer(&PODS, &pod.object, names::TRACKING))
        });
        all(untracks).await?;
        if plan.expire {
            let foreground = Some(Propagation::Foreground);
            return self.rest.delete(&JOBS, job, foreground).await;
        }
        if wrote || !plan.untrack.is_empty() || !plan.create.is_empty() {
            self.queue.add(key.clone());
        }
        Ok(())
    }

    async fn remove(&self, pod: &JobPod, removal: &Removal) -> Result<(), kube::Error> {
        if !removal.counted {
            self.rest.drop_finalizer(&PODS, &pod.object, names::TRACKING).await?;
        }
        self.rest.delete(&PODS, &pod.object, None).await
    }
}

/// A pod with the finalizer but no Job: somebody has orphaned it.
fn is_stray(pod: &Value) -> bool {
    meta::finalizers(pod).contains(&names::TRACKING)
}

/// Runs requests side by side; all are tried, the first refusal is returned.
async fn all<F>(requests: impl Iterator<Item = F>) -> Result<(), kube::Error>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    let requests: Vec<F> = requests.collect();
    let mut outcomes = futures::stream::iter(requests).buffer_unordered(AT_ONCE);
    let mut first = Ok(());
    while let Some(outcome) = outcomes.next().await {
        if first.is_ok() {
            first = outcome;
        }
    }
    first
}
