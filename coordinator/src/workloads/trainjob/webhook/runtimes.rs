//! The runtime of a TrainJob as it is now, also if it was created or changed a moment ago and the caches do not show it yet: for a job
//! that is created the API server is asked, as often as a bucket of tokens allows. Beyond that, and while it does not answer, the
//! caches are all there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::Api;
use kube::core::admission::Operation;
use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_pipeline::cluster::Cluster;
use muster_pipeline::in_use;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::Snapshot;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::workloads::trainjob::caches::RuntimeId;
use crate::workloads::trainjob::kinds::{ClusterRuntime, LocalRuntime};
use crate::workloads::trainjob::webhook as trainjob;
use crate::workloads::trainjob::{Caches, Rules};
use muster_api::kind::RawObject as _;
use muster_kube::{Name, Namespace};
use muster_serving::webhook::{Answer, Request};

/// Questions that may come at once.
const BURST: f64 = 50.0;

/// Questions per second, for as long as they come.
const PER_SECOND: f64 = 10.0;

/// How long the API server may take, of the seconds that it gives the webhook itself.
const LONGEST: Duration = Duration::from_secs(2);

/// Answers for TrainJobs. Copies share the bucket.
#[derive(Clone)]
pub struct Runtimes {
    client: Client,
    known: Caches,
    bucket: Arc<Mutex<Bucket>>,
}

/// How many questions are left.
struct Bucket {
    tokens: f64,
    at: Option<Instant>,
}

/// The caches, and a runtime that the API server was asked for.
struct Known<'a> {
    caches: &'a Caches,
    found: Option<(RuntimeId, Arc<Runtime>)>,
}

// === impl Runtimes ===

impl Runtimes {
    /// With these caches.
    pub fn new(client: Client, known: Caches) -> Self {
        let bucket = Arc::new(Mutex::new(Bucket { tokens: BURST, at: None }));
        Self { client, known, bucket }
    }

    /// What is filled into a TrainJob. Few need their runtime for that.
    pub async fn mutate(self, request: Request, rules: Arc<Rules>) -> Answer {
        let found = match trainjob::has_no_processes(&request) {
            true => self.current(&request).await,
            false => None,
        };
        trainjob::mutate(&request, &Known { caches: &self.known, found }, &rules)
    }

    /// What is said to a TrainJob.
    pub async fn validate(self, request: Request, rules: Arc<Rules>) -> Answer {
        let found = self.current(&request).await;
        trainjob::validate(&request, &Known { caches: &self.known, found }, &rules)
    }

    /// The runtime that the job names, as the API server has it. A job that is changed was judged before: for it the caches do, unless
    /// they lack the runtime.
    async fn current(&self, request: &Request) -> Option<(RuntimeId, Arc<Runtime>)> {
        let object = serde_json::to_value(request.object.as_ref()?).ok()?;
        let job: TrainJob = serde_json::from_value(object).ok()?;
        let (kind, namespace, name) = in_use::used_by(&job)?;
        if request.operation != Operation::Create
            && self.known.runtime(kind, job.namespace(), name).is_some()
        {
            return None;
        }
        if !self.bucket.lock().take(Instant::now()) {
            tracing::debug!(name, reason = "too-many", "the API server is not asked for a runtime");
            return None;
        }
        let id = RuntimeId::new(kind, namespace.unwrap_or_default(), name);
        let read = tokio::time::timeout(LONGEST, self.read(&id)).await.ok().flatten()?;
        Some((id, Arc::new(read)))
    }

    async fn read(&self, RuntimeId { kind, namespace, name }: &RuntimeId) -> Option<Runtime> {
        let client = self.client.clone();
        // What cannot be a name is no runtime's, and becomes no path.
        let name = Name::parse(name).ok()?;
        let found = match kind {
            RuntimeKind::Namespaced => {
                let api: Api<LocalRuntime> =
                    Api::namespaced(client, &Namespace::parse(namespace).ok()?);
                api.get_opt(&name).await.map(|found| found.map(|found| found.object()))
            }
            RuntimeKind::Cluster => {
                let api: Api<ClusterRuntime> = Api::all(client);
                api.get_opt(&name).await.map(|found| found.map(|found| found.object()))
            }
        };
        match found {
            Ok(found) => Runtime::read(found?).ok(),
            Err(error) => {
                tracing::debug!(%name, reason = "unreadable", "a runtime cannot be read: {error}");
                None
            }
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// Takes a token, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let since = self.at.replace(now).map_or(Duration::ZERO, |at| now.duration_since(at));
        self.tokens = (self.tokens + since.as_secs_f64() * PER_SECOND).min(BURST);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

// === impl Known ===

impl Cluster for Known<'_> {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        if let Some((known, runtime)) = &self.found
            && *known == RuntimeId::new(kind, namespace, name)
        {
            return Some(runtime.clone());
        }
        self.caches.runtime(kind, namespace, name)
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        self.caches.snapshot(namespace, name)
    }

    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>> {
        self.caches.job_set(namespace, name)
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        self.caches.exists(api_version, kind, namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        self.caches.secret(namespace, name)
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.caches.table_template(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_jobs_without_a_runtime_asks_a_burst_and_then_ten_times_a_second() {
        let (begun, mut bucket) = (Instant::now(), Bucket { tokens: BURST, at: None });
        let mut asked = |after: u64| {
            let now = begun + Duration::from_millis(after);
            (0..10_000).filter(|_| bucket.take(now)).count()
        };
        assert_eq!((asked(0), asked(0)), (50, 0));
        assert_eq!((asked(1_000), asked(1_050), asked(1_100)), (10, 0, 1));
        assert_eq!(asked(3_600_000), 50, "what nobody has asked is not saved up");
    }
}
