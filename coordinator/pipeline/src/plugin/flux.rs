//! Flux: an instance of the resource manager inside the job's pods. Nodes and variables come from PlainML.

mod script;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::TrainJob;
use muster_api::names::NODE;
use muster_api::runtime::FluxPolicy;
use muster_kube::FieldError;
use serde_json::{Value, json};

use super::{
    ComponentBuilder, Context, CustomValidation, EnforceMlPolicy, Fault, Plugin, Verdict, Watch,
    WatchExtension,
};
use crate::info::Info;
use crate::pod_set::called;
use crate::registry::Registry;
use crate::{name, upsert};

/// The image that holds Flux, unless the job names another.
pub const VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy";
/// The Secret with a job's certificate.
const CURVE: &str = "flux-curve";
const INSTALLER: &str = "flux-installer";
const CONFIG_AT: &str = "/etc/flux-config";

/// Flux.
pub struct Flux;

/// What a job may set by variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FluxSettings {
    image: String,
    device: String,
    queue: String,
}

// === impl Flux ===

impl Plugin for Flux {
    fn name(&self) -> &'static str {
        "Flux"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self.clone());
        at.builders.push(self.clone());
        at.validators.push(self.clone());
        at.watchers.push(self);
    }
}

impl EnforceMlPolicy for Flux {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if policy(info).is_none() {
            return Ok(());
        }
        nodes(job)?;
        let settings = FluxSettings::of(info, job);
        let original = original_command(info, job);
        let script = format!("{CONFIG_AT}/entrypoint.sh");
        info.command = Some(vec!["/bin/bash".to_owned(), script, original]);
        info.args_taken = true;
        let config = config(job);
        let Some(pods) = info.pod_set_mut(NODE) else { return Ok(()) };
        let spec = pods.pod_spec_mut();
        for volume in [
            json!({"name": "spack-install", "emptyDir": {}}),
            json!({"name": "flux-install", "emptyDir": {}}),
            json!({"name": config, "configMap": {"name": config, "defaultMode": 0o755}}),
            json!({"name": "shared-memory", "emptyDir": {"medium": "Memory"}}),
            json!({"name": "flux-curve", "secret": {"secretName": curve(job), "defaultMode": 0o400}}),
        ] {
            upsert::volume(spec, volume);
        }
        let install = json!({"name": "flux-install", "mountPath": "/mnt/flux"});
        let scripts = json!({"name": config, "mountPath": CONFIG_AT, "readOnly": true});
        let mut installer = json!({
            "name": INSTALLER, "command": ["/bin/bash", format!("{CONFIG_AT}/init.sh")],
            "volumeMounts": [install, scripts],
        });
        if !settings.image.is_empty() {
            installer["image"] = json!(settings.image);
        }
        upsert::list(spec, "initContainers").push(installer);
        if let Some(container) = pods.node_mut() {
            for mount in [
                install,
                json!({"name": "spack-install", "mountPath": "/opt/software"}),
                scripts,
                json!({"name": "flux-curve", "mountPath": "/curve", "readOnly": true}),
                json!({"name": "shared-memory", "mountPath": "/dev/shm", "readOnly": true}),
            ] {
                upsert::mount(container, mount);
            }
        }
        Ok(())
    }
}

impl ComponentBuilder for Flux {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let Some(policy) = policy(info) else { return Ok(Vec::new()) };
        let said = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_proc_per_node);
        let settings = FluxSettings::of(info, job);
        let shape = script::Shape {
            job: job.name(),
            namespace: job.namespace(),
            nodes: i64::from(nodes(job)?),
            tasks: i64::from(said.or(policy.num_proc_per_node).unwrap_or(1)),
            gpus: info.node_resources(job).gpus(),
            device: &settings.device,
            queue: &settings.queue,
        };
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": name::metadata(job, &config(job)),
            "data": {"entrypoint.sh": script::entrypoint(&shape), "init.sh": script::init(&shape)},
        })];
        let secret = curve(job);
        // A key of random bytes is made once; one that is made of the uid is always the same.
        let there = || cx.cluster.exists("v1", "Secret", job.namespace(), &secret);
        if cx.keys.curve_of_uid || !there() {
            let pair = cx.keys.curve(job.uid());
            let text = script::certificate(job.name(), &pair);
            objects.push(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": name::metadata(job, &secret),
                "data": {"curve.cert": STANDARD.encode(text)},
            }));
        }
        Ok(objects)
    }

    fn is_made_once(&self, job: &TrainJob, object: &Value) -> bool {
        object["kind"] == "Secret" && object["metadata"]["name"] == name::of(job, CURVE).as_str()
    }
}

impl CustomValidation for Flux {
    fn validate(
        &self,
        _: &Context<'_>,
        info: &Info,
        _: Option<&TrainJob>,
        job: &TrainJob,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(policy) = policy(info) else { return verdict };
        let said = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_proc_per_node);
        if let Some(count) = said.or(policy.num_proc_per_node).filter(|count| *count < 1) {
            let why = "must be greater than or equal to 1 for Flux TrainJob";
            let error = FieldError::invalid("spec.trainer.numProcPerNode", count, why);
            verdict.errors.push(error.remedy("say how many processes each node runs"));
        }
        let taken = |pods: &crate::pod_set::PodSet| {
            pods.init_containers().iter().any(|container| called(container, INSTALLER))
        };
        if info.pod_set(NODE).is_some_and(taken) {
            let why = format!("InitContainer '{INSTALLER}' is reserved");
            let error = FieldError::invalid("spec.trainer.initContainers", INSTALLER, why);
            verdict.errors.push(error.remedy("rename the init container of the runtime"));
        }
        verdict
    }
}

impl WatchExtension for Flux {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned("v1", "ConfigMap"), Watch::Owned("v1", "Secret")]
    }
}

// === impl FluxSettings ===

impl FluxSettings {
    /// By default, then as the container's variables say, then as the job's do.
    fn of(info: &Info, job: &TrainJob) -> Self {
        let mut settings = Self {
            image: VIEW_IMAGE.to_owned(),
            device: "eth0".to_owned(),
            queue: "fcfs".to_owned(),
        };
        let container = info.trainer().and_then(|pods| pods.container(NODE));
        let env = container.and_then(|container| container.get("env")?.as_array());
        for variable in env.into_iter().flatten() {
            if let (Some(name), Some(value)) =
                (variable["name"].as_str(), variable["value"].as_str())
            {
                settings.set(name, value);
            }
        }
        let env = job.spec.trainer.as_ref().and_then(|trainer| trainer.env.as_ref());
        for variable in env.into_iter().flatten() {
            settings.set(&variable.name, variable.value.as_deref().unwrap_or_default());
        }
        settings
    }

    fn set(&mut self, name: &str, value: &str) {
        let setting = match name {
            "FLUX_VIEW_IMAGE" => &mut self.image,
            "FLUX_NETWORK_DEVICE" => &mut self.device,
            "FLUX_QUEUE_POLICY" => &mut self.queue,
            _ => return,
        };
        value.clone_into(setting);
    }
}

fn policy(info: &Info) -> Option<&FluxPolicy> {
    info.ml().and_then(|ml| ml.flux.as_ref())
}

fn nodes(job: &TrainJob) -> Result<i32, Fault> {
    let nodes = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes);
    nodes.ok_or_else(|| {
        Fault::new(format!(
            "TrainJob {}/{}: a runtime with mlPolicy.flux needs spec.trainer.numNodes; set it",
            job.namespace(),
            job.name()
        ))
    })
}

fn config(job: &TrainJob) -> String {
    name::of(job, "flux-entrypoint")
}

fn curve(job: &TrainJob) -> String {
    name::of(job, CURVE)
}

/// What runs inside Flux: the job's command, even an empty one, else the runtime's, and the job's arguments.
fn original_command(info: &Info, job: &TrainJob) -> String {
    let trainer = job.spec.trainer.as_ref();
    let own = trainer.and_then(|trainer| trainer.command.clone());
    let mut words = own.unwrap_or_else(|| {
        let container = info.trainer().and_then(|pods| pods.container(NODE));
        let command = container.and_then(|container| container.get("command")?.as_array());
        let words = command.into_iter().flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    });
    words.extend(trainer.and_then(|trainer| trainer.args.clone()).unwrap_or_default());
    words.join(" ").trim().to_owned()
}
