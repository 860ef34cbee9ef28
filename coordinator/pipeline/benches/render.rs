//! How many TrainJobs are rendered in a second: `cargo bench -p muster-pipeline`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::{Pass, reconcile};
use muster_pipeline::runtime::{Runtime, RuntimeKind, Runtimes};
use muster_pipeline::snapshot::{self, Snapshot};
use muster_pipeline::{Cluster, Registry, Settings};
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use serde_json::{Value, json};

/// One runtime, and what a first pass has made.
struct One {
    runtime: Arc<Runtime>,
    snapshot: Option<Snapshot>,
    job_set: Option<Arc<JobSet>>,
}

impl Cluster for One {
    fn runtime(&self, _: RuntimeKind, _: &str, _: &str) -> Option<Arc<Runtime>> {
        Some(self.runtime.clone())
    }

    fn snapshot(&self, _: &str, _: &str) -> Option<Snapshot> {
        self.snapshot.clone()
    }

    fn job_set(&self, _: &str, _: &str) -> Option<Arc<JobSet>> {
        self.job_set.clone()
    }

    fn exists(&self, _: &str, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn secret(&self, _: &str, _: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        None
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        Err(TemplateProblem::Missing { namespace: String::new(), name: name.to_owned() })
    }
}

/// As the shipped torch-distributed, with a sidecar and resources.
fn runtime() -> Value {
    let node = json!({"name": "node", "image": "pytorch/pytorch:2.9",
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"nvidia.com/gpu": 8}},
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    let side =
        json!({"name": "logs", "image": "logs:1", "env": [{"name": "LEVEL", "value": "info"}]});
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch-distributed"},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [
            {"name": "node", "replicas": 1, "groupName": "default", "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": {"spec": {"containers": [node, side],
                    "volumes": [{"name": "data", "emptyDir": {}}], "restartPolicy": "Never"}}}}}]}}}})
}

fn job() -> TrainJob {
    serde_json::from_value(json!({
        "metadata": {"name": "job", "namespace": "team", "uid": "u-1"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 4,
            "image": "train:2", "command": ["torchrun", "train.py"], "args": ["--epochs=3"],
            "env": [{"name": "LR", "value": "0.1"}, {"name": "BATCH", "value": "32"}],
            "resourcesPerNode": {"requests": {"cpu": "16"}}}},
    }))
    .unwrap()
}

fn render(c: &mut Criterion) {
    let runtime = Arc::new(Runtime::read(runtime()).unwrap());
    let job = job();
    let (settings, keys) = (Settings::default(), Keys::default());
    let (registry, runtimes) = (Registry::standard(), Runtimes::default());
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let mut cluster = One { runtime: runtime.clone(), snapshot: None, job_set: None };
    let mut group = c.benchmark_group("torch");
    group.throughput(Throughput::Elements(1));
    {
        let context = Context { cluster: &cluster, settings: &settings, keys: &keys };
        let pass = Pass { job: &job, context, registry: &registry, runtimes: &runtimes, now };
        group.bench_function("render", |b| b.iter(|| black_box(pass.objects(&runtime).unwrap())));
        group.bench_function("first pass", |b| b.iter(|| black_box(reconcile(&pass))));
        let kept = snapshot::build(&job, &runtime).unwrap();
        let made = pass.objects(&runtime).unwrap().pop().unwrap();
        cluster.snapshot = Some(Snapshot::read(&kept));
        cluster.job_set = Some(Arc::new(serde_json::from_value(made).unwrap()));
    }
    let context = Context { cluster: &cluster, settings: &settings, keys: &keys };
    let pass = Pass { job: &job, context, registry: &registry, runtimes: &runtimes, now };
    group.bench_function("pass with nothing to do", |b| b.iter(|| black_box(reconcile(&pass))));
    group.finish();
}

criterion_group!(benches, render);
criterion_main!(benches);
