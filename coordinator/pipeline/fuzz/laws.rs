//! What must hold of every pass, whatever the input.
//!
//! ```text
//!   targets/pass.rs (libFuzzer) ──────────────┐
//!                                             ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/pipeline/fuzzed.rs (proptest) ───┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::{Pass, reconcile};
use muster_pipeline::runtime::{Runtime, RuntimeKind, Runtimes};
use muster_pipeline::snapshot::{self, Snapshot};
use muster_pipeline::{Cluster, Registry, Settings, defaults, validate};
use muster_ranktable::inject::TemplateProblem;
use muster_ranktable::{ConfigMap, TableTemplate};
use serde_json::Value;

/// A cluster of whatever was fed.
struct Fed {
    runtime: Option<Arc<Runtime>>,
    objects: Vec<Value>,
}

impl Fed {
    fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name)
    }
}

impl Cluster for Fed {
    fn runtime(&self, kind: RuntimeKind, _: &str, _: &str) -> Option<Arc<Runtime>> {
        self.runtime.clone().filter(|runtime| runtime.kind == kind)
    }

    fn snapshot(&self, _: &str, name: &str) -> Option<Snapshot> {
        self.find("ConfigMap", name).map(Snapshot::read)
    }

    fn job_set(&self, _: &str, name: &str) -> Option<Arc<JobSet>> {
        serde_json::from_value(self.find("JobSet", name)?.clone()).ok().map(Arc::new)
    }

    fn exists(&self, api: &str, kind: &str, _: &str, name: &str) -> bool {
        self.find(kind, name).is_some_and(|object| object["apiVersion"] == api)
    }

    fn secret(&self, _: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        self.find("Secret", name).map(|_| BTreeMap::from([("ca.crt".to_owned(), b"CA".to_vec())]))
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        let missing = || {
            let (namespace, name) = ("muster-system".to_owned(), name.to_owned());
            TemplateProblem::Missing { namespace, name }
        };
        let map = self.find("ConfigMap", name).ok_or_else(missing)?;
        let map: ConfigMap = serde_json::from_value(map.clone()).map_err(|_| missing())?;
        Ok(Arc::new(TableTemplate::read(&map, None)?))
    }
}

/// Raw JSON is read or refused; what is read can be completed, judged and passed over, always with the same outcome.
pub fn pass(bytes: &[u8]) -> bool {
    let Ok(raw) = serde_json::from_slice::<Value>(bytes) else { return false };
    let now = jiff::Timestamp::from_second(1_700_000_000).expect("a time");
    let changes = defaults::train_job(&raw["job"], raw.get("old"), now);
    assert!(changes.iter().all(|change| change["path"].is_string()));
    let Ok(job) = serde_json::from_value::<TrainJob>(raw["job"].clone()) else { return false };
    let old = serde_json::from_value::<TrainJob>(raw["old"].clone()).ok();
    let runtime = Runtime::read(raw["runtime"].clone()).ok().map(Arc::new);
    if let Some(runtime) = &runtime {
        let verdict = validate::runtime(runtime);
        assert!(verdict.errors.iter().all(|error| !error.field.is_empty()));
        kept(&job, runtime);
    }
    let objects = raw["objects"].as_array().cloned().unwrap_or_default();
    let cluster = Fed { runtime, objects };
    let settings = Settings { train_job_status: raw["gate"] == true, ..Settings::default() };
    // A key takes longer to make than all else.
    let keys = Keys { seed: None, curve_of_uid: false };
    let context = Context { cluster: &cluster, settings: &settings, keys: &keys };
    let (registry, runtimes) = (Registry::standard(), Runtimes::default());
    if let Ok(verdict) = validate::train_job(&job, old.as_ref(), &context, &registry) {
        for error in &verdict.errors {
            assert!(!error.field.is_empty() && !error.remedy.is_empty(), "{error}");
        }
    }
    let pass = Pass { job: &job, context, registry: &registry, runtimes: &runtimes, now };
    let outcome = reconcile(&pass);
    assert_eq!(outcome, reconcile(&pass), "the same twice");
    for object in &outcome.apply {
        assert_eq!(object["metadata"]["namespace"], job.namespace());
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], job.uid());
    }
    assert!(!(outcome.delete_job_set && outcome.requeue.is_some()));
    outcome.error.is_none() && cluster.runtime.is_some()
}

/// A runtime that is kept is the same when it is read again.
fn kept(job: &TrainJob, runtime: &Runtime) {
    let Ok(map) = snapshot::build(job, runtime) else { return };
    let text = map["data"]["runtime"].as_str().expect("a text");
    let again = Runtimes::default().read(text).expect("what was kept can be read");
    assert_eq!(
        (again.jobs.clone(), again.rest.clone()),
        (runtime.jobs.clone(), runtime.rest.clone())
    );
    assert_eq!(again.spec, runtime.spec);
}
