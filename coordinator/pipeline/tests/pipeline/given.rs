//! A cluster of values, and builders.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::{Outcome, Pass, reconcile};
use muster_pipeline::runtime::{Runtime, RuntimeKind, Runtimes};
use muster_pipeline::snapshot::Snapshot;
use muster_pipeline::{Cluster, Registry, Settings};
use muster_ranktable::inject::TemplateProblem;
use muster_ranktable::{ConfigMap, TableTemplate};
use serde_json::{Value, json};

pub const NOW: &str = "2026-01-02T03:04:05Z";

/// A cluster that holds these objects.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub objects: Vec<Value>,
    pub settings: Settings,
}

impl Given {
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        Self { objects: objects.into_iter().collect(), settings: Settings::default() }
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name)
    }

    /// One pass over a job, at [`NOW`].
    pub fn pass(&self, job: &Value) -> Outcome {
        self.pass_with(job, &Registry::standard(), NOW)
    }

    pub fn pass_with(&self, job: &Value, registry: &Registry, now: &str) -> Outcome {
        let job: TrainJob = serde_json::from_value(job.clone()).unwrap();
        let keys = Keys { seed: Some([7; 64]), curve_of_uid: false };
        let context = Context { cluster: self, settings: &self.settings, keys: &keys };
        let now: Timestamp = now.parse().unwrap();
        reconcile(&Pass { job: &job, context, registry, runtimes: &Runtimes::default(), now })
    }

    /// Does what a pass decided, as a server would; objects replace those of the same name.
    pub fn apply(&mut self, outcome: &Outcome) {
        for object in &outcome.apply {
            let same = |o: &Value| {
                o["kind"] == object["kind"]
                    && o["apiVersion"] == object["apiVersion"]
                    && o["metadata"]["name"] == object["metadata"]["name"]
            };
            self.objects.retain(|o| !same(o));
            self.objects.push(object.clone());
        }
        if outcome.delete_job_set {
            self.objects.retain(|o| o["kind"] != "JobSet");
        }
    }
}

impl Cluster for Given {
    fn runtime(&self, kind: RuntimeKind, _: &str, name: &str) -> Option<Arc<Runtime>> {
        let object = self.find(kind.kind(), name)?;
        Some(Arc::new(Runtime::read(object.clone()).unwrap()))
    }

    fn snapshot(&self, _: &str, name: &str) -> Option<Snapshot> {
        self.find("ConfigMap", name).map(Snapshot::read)
    }

    fn job_set(&self, _: &str, name: &str) -> Option<Arc<JobSet>> {
        let object = self.find("JobSet", name)?;
        Some(Arc::new(serde_json::from_value(object.clone()).unwrap()))
    }

    fn exists(&self, api_version: &str, kind: &str, _: &str, name: &str) -> bool {
        self.objects.iter().any(|o| {
            o["kind"] == kind && o["apiVersion"] == api_version && o["metadata"]["name"] == name
        })
    }

    fn secret(&self, _: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let object = self.find("Secret", name)?;
        let data = object["stringData"].as_object().unwrap();
        Some(data.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().into())).collect())
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        let Some(object) = self.find("ConfigMap", name) else {
            let (namespace, name) = ("muster-system".to_owned(), name.to_owned());
            return Err(TemplateProblem::Missing { namespace, name });
        };
        let map: ConfigMap = serde_json::from_value(object.clone()).unwrap();
        Ok(Arc::new(TableTemplate::read(&map, None).unwrap()))
    }
}

/// A job of the step, with one container `node`.
pub fn trains(name: &str) -> Value {
    json!({"name": name, "replicas": 1, "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "train:1"}]}}},
    }})
}

/// A ClusterTrainingRuntime `rt`.
pub fn runtime(ml: Value, jobs: Value) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt"},
        "spec": {"mlPolicy": ml, "template": {"spec": {"replicatedJobs": jobs}}}})
}

/// A TrainJob `job` that runs on it.
pub fn job(spec: Value) -> Value {
    let mut job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "team", "uid": "u-1",
            "creationTimestamp": "2026-01-02T03:00:00Z"},
        "spec": spec});
    job["spec"]["runtimeRef"] = json!({"name": "rt"});
    job
}

/// The objects of a kind.
pub fn of_kind<'a>(outcome: &'a Outcome, kind: &str) -> Vec<&'a Value> {
    outcome.apply.iter().filter(|o| o["kind"] == kind).collect()
}

/// The job's pod template.
pub fn pod(outcome: &Outcome, index: usize) -> &Value {
    &of_kind(outcome, "JobSet")[0]["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]
}
