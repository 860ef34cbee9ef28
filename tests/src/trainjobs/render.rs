//! One torch job, rendered over and over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::Pass;
use muster_pipeline::snapshot::Snapshot;
use muster_pipeline::{Cluster, Registry, Runtime, RuntimeKind, Runtimes, Settings};
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use serde_json::json;

use super::load;

/// How long is measured, each of three times.
const LONG: Duration = Duration::from_millis(700);

/// A cluster with one runtime, which is kept already.
struct Alone {
    snapshot: Snapshot,
}

impl Cluster for Alone {
    fn runtime(&self, _: RuntimeKind, _: &str, _: &str) -> Option<Arc<Runtime>> {
        None
    }

    fn snapshot(&self, _: &str, _: &str) -> Option<Snapshot> {
        Some(self.snapshot.clone())
    }

    fn job_set(&self, _: &str, _: &str) -> Option<Arc<JobSet>> {
        None
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

/// How long one render takes: the best of three.
pub fn one() -> anyhow::Result<Duration> {
    let mut job = load::job("job", load::RUNTIME);
    job["metadata"]["uid"] = json!("u");
    job["metadata"]["namespace"] = json!("default");
    // As the API server fills in.
    job["spec"]["runtimeRef"]["kind"] = json!("ClusterTrainingRuntime");
    job["spec"]["runtimeRef"]["apiGroup"] = json!("trainer.kubeflow.org");
    let job: TrainJob = serde_json::from_value(job)?;
    let snapshot = Snapshot {
        controller: Some("u".to_owned()),
        runtime: Some(load::runtime(load::RUNTIME).to_string()),
    };
    let cluster = Alone { snapshot };
    let (settings, keys, registry) = (Settings::default(), Keys::default(), Registry::standard());
    let runtimes = Runtimes::default();
    let context = Context { cluster: &cluster, settings: &settings, keys: &keys };
    let now = jiff::Timestamp::now();
    let pass = Pass { job: &job, context, registry: &registry, runtimes: &runtimes, now };
    let plan = pass.plan();
    ensure!(plan.error.is_none() && plan.apply.len() == 1, "{plan:?}");
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let (begun, mut count) = (Instant::now(), 0u32);
        while begun.elapsed() < LONG {
            for _ in 0..100 {
                std::hint::black_box(pass.plan());
            }
            count += 100;
        }
        best = best.min(begun.elapsed() / count);
    }
    Ok(best)
}
