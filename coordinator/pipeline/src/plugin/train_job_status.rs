//! TrainJobStatus: where a trainer reports how far it is, and with which token. Only if the operator wants it.

use std::sync::Arc;

use muster_api::TrainJob;
use serde_json::{Value, json};

use super::{ComponentBuilder, Context, EnforcePodSpec, Fault, Plugin};
use crate::info::Info;
use crate::registry::Registry;
use crate::report::audience;
use crate::{name, upsert};

const FOLDER: &str = "/var/run/secrets/kubeflow/trainer";
const VOLUME: &str = "kubeflow-trainer-token";
const AUTHORITY: &str = "ca.crt";
const LIFETIME: u32 = 3600;

/// TrainJobStatus.
pub struct TrainJobStatusGate;

// === impl TrainJobStatusGate ===

impl Plugin for TrainJobStatusGate {
    fn name(&self) -> &'static str {
        "TrainJobStatus"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_spec.push(self.clone());
        at.builders.push(self);
    }
}

impl EnforcePodSpec for TrainJobStatusGate {
    fn enforce_pod_spec(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if !cx.settings.train_job_status {
            return Ok(());
        }
        let settings = cx.settings;
        let url = format!(
            "https://{}.{}.svc:{}/apis/{}",
            settings.status_service,
            settings.namespace,
            settings.status_port,
            path(job)
        );
        let Some(pods) = info.trainer_mut() else { return Ok(()) };
        for container in pods.containers_mut() {
            upsert::env(container, upsert::variable("KUBEFLOW_TRAINER_SERVER_URL", url.clone()));
            let file = |file: &str| format!("{FOLDER}/{file}");
            upsert::env(
                container,
                upsert::variable("KUBEFLOW_TRAINER_SERVER_CA_CERT", file(AUTHORITY)),
            );
            upsert::env(
                container,
                upsert::variable("KUBEFLOW_TRAINER_SERVER_TOKEN", file("token")),
            );
            upsert::mount(
                container,
                json!({"name": VOLUME, "mountPath": FOLDER, "readOnly": true}),
            );
        }
        upsert::volume(pods.pod_spec_mut(), volume(job));
        Ok(())
    }
}

impl ComponentBuilder for TrainJobStatusGate {
    fn build(&self, cx: &Context<'_>, _: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        if !cx.settings.train_job_status {
            return Ok(Vec::new());
        }
        let (namespace, secret) = (&cx.settings.namespace, &cx.settings.status_secret);
        let found = cx.cluster.secret(namespace, secret).ok_or_else(|| {
            Fault::new(format!(
                "failed to look up status server tls secret: secrets {secret:?} not found"
            ))
        })?;
        let authority = found.get(AUTHORITY).map(|bytes| String::from_utf8_lossy(bytes));
        let authority = authority.filter(|text| !text.is_empty()).ok_or_else(|| {
            Fault::new(format!("failed to find {AUTHORITY} in status server tls secret {secret:?}"))
        })?;
        Ok(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": name::metadata(job, &config(job)), "data": {AUTHORITY: authority},
        })])
    }
}

/// The path of a job's reports, which is also the audience of its token.
fn path(job: &TrainJob) -> String {
    audience(job.namespace(), job.name())
}

fn config(job: &TrainJob) -> String {
    name::of(job, "tls-config")
}

fn volume(job: &TrainJob) -> Value {
    json!({"name": VOLUME, "projected": {"sources": [
        {"serviceAccountToken":
            {"audience": path(job), "expirationSeconds": LIFETIME, "path": "token"}},
        {"configMap": {"name": config(job), "items": [{"key": AUTHORITY, "path": AUTHORITY}]}},
    ]}})
}
