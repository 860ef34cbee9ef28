//! MPI: keys so that the launcher reaches its nodes, a file that names them, and what OpenMPI reads.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::TrainJob;
use muster_api::names::{LAUNCHER, NODE};
use muster_api::runtime::MpiPolicy;
use muster_kube::FieldError;
use serde_json::{Value, json};

use super::torch::reserved;
use super::{
    ComponentBuilder, Context, CustomValidation, EnforceMlPolicy, Fault, Plugin, Verdict, Watch,
    WatchExtension,
};
use crate::info::Info;
use crate::registry::Registry;
use crate::{name, upsert};

const KEYS: &str = "mpi-ssh-auth";
const HOSTS: &str = "mpi-hostfile";
const HOSTS_AT: &str = "/etc/mpi";
const OPEN_MPI: &str = "OpenMPI";
/// A ConfigMap has at most 1 MiB.
const LARGEST: usize = 1_000_000;
const HOSTFILE: &str = "OMPI_MCA_orte_default_hostfile";
const KEEP_NAMES: &str = "OMPI_MCA_orte_keep_fqdn_hostnames";
const SLOTS: &str = "OMPI_MCA_orte_set_default_slots";
const RSH_ARGS: &str = "OMPI_MCA_plm_rsh_args";

/// MPI.
pub struct Mpi;

// === impl Mpi ===

impl Plugin for Mpi {
    fn name(&self) -> &'static str {
        "MPI"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.ml_policy.push(self.clone());
        at.builders.push(self.clone());
        at.validators.push(self.clone());
        at.watchers.push(self);
    }
}

impl EnforceMlPolicy for Mpi {
    fn enforce_ml_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let runtime = info.runtime.clone();
        let Some(policy) = runtime.spec.ml_policy.as_ref().and_then(|ml| ml.mpi.as_ref()) else {
            return Ok(());
        };
        let implementation = policy.mpi_implementation.as_deref().unwrap_or_default();
        if implementation != OPEN_MPI {
            return Err(Fault::new(format!(
                "MPI implementation for {implementation:?} doesn't supported: set mpiImplementation to {OPEN_MPI}"
            )));
        }
        let nodes = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes);
        if let (Some(nodes), Some(pods)) = (nodes, info.pod_set_mut(NODE)) {
            let workers = nodes.saturating_sub(1).max(1);
            pods.count = if launcher_trains(policy) { workers } else { nodes };
        }
        let processes = processes(info, job, policy);
        let path = policy.ssh_auth_mount_path.as_deref().unwrap_or_default();
        for pods in &mut info.pod_sets {
            let launches = pods.name == LAUNCHER;
            if !launches && pods.name != NODE {
                continue;
            }
            upsert::volume(pods.pod_spec_mut(), key_volume(job));
            if launches {
                upsert::volume(pods.pod_spec_mut(), host_volume(job));
            }
            for container in pods.containers_mut().filter(|c| c.get("name") == Some(&json!(NODE))) {
                upsert::mount(container, json!({"name": KEYS, "mountPath": path}));
                if launches {
                    upsert::mount(container, json!({"name": HOSTS, "mountPath": HOSTS_AT}));
                    let file = format!("{HOSTS_AT}/hostfile");
                    upsert::env(container, upsert::variable(HOSTFILE, file));
                    upsert::env(container, upsert::variable(KEEP_NAMES, "true"));
                    upsert::env(container, upsert::variable(SLOTS, processes.to_string()));
                    let args = "-o ConnectionAttempts=10";
                    upsert::env(container, upsert::variable(RSH_ARGS, args));
                }
            }
        }
        Ok(())
    }
}

impl ComponentBuilder for Mpi {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let Some(policy) = info.ml().and_then(|ml| ml.mpi.as_ref()) else { return Ok(Vec::new()) };
        let mut objects = vec![hostfile(info, job, policy)?];
        let secret = name::of(job, KEYS);
        // A key is made once: processes that run know the old one.
        if !cx.cluster.exists("v1", "Secret", job.namespace(), &secret) {
            let pair = cx.keys.ssh()?;
            objects.push(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": name::metadata(job, &secret),
                "type": "kubernetes.io/ssh-auth", "immutable": true,
                "data": {
                    "ssh-privatekey": STANDARD.encode(pair.private),
                    "ssh-publickey": STANDARD.encode(pair.public),
                },
            }));
        }
        Ok(objects)
    }

    fn is_made_once(&self, job: &TrainJob, object: &Value) -> bool {
        object["kind"] == "Secret" && object["metadata"]["name"] == name::of(job, KEYS).as_str()
    }
}

impl CustomValidation for Mpi {
    fn validate(
        &self,
        _: &Context<'_>,
        info: &Info,
        _: Option<&TrainJob>,
        new: &TrainJob,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(policy) = info.ml().and_then(|ml| ml.mpi.as_ref()) else { return verdict };
        let nodes = new.spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes);
        let incomplete = info.pod_set(LAUNCHER).is_none() || info.pod_set(NODE).is_none();
        if nodes.is_some_and(|nodes| nodes >= 2) && launcher_trains(policy) && incomplete {
            let why = "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node";
            let error = FieldError::invalid("spec.trainer.numNodes", nodes, why);
            verdict.errors.push(error.remedy("use a runtime with the jobs launcher and node"));
        }
        verdict.errors.extend(reserved(new, &[HOSTFILE, KEEP_NAMES, SLOTS, RSH_ARGS]));
        verdict
    }
}

impl WatchExtension for Mpi {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned("v1", "ConfigMap"), Watch::Owned("v1", "Secret")]
    }
}

fn launcher_trains(policy: &MpiPolicy) -> bool {
    policy.run_launcher_as_node == Some(true)
}

/// The job's, else the runtime's; one is as if it said nothing where a node has several GPUs.
fn processes(info: &Info, job: &TrainJob, policy: &MpiPolicy) -> i64 {
    let said = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_proc_per_node);
    if let Some(said) = said {
        return i64::from(said);
    }
    match i64::from(policy.num_proc_per_node.unwrap_or(1)) {
        1 => info.node_resources(job).gpus().max(1),
        more => more,
    }
}

fn key_volume(job: &TrainJob) -> Value {
    let item = |key: &str, path: &str, mode: u16| json!({"key": key, "path": path, "mode": mode});
    json!({"name": KEYS, "secret": {
        "secretName": name::of(job, KEYS), "defaultMode": 0o400,
        "items": [
            item("ssh-privatekey", "id_rsa", 0o640),
            item("ssh-publickey", "id_rsa.pub", 0o644),
            item("ssh-publickey", "authorized_keys", 0o644),
        ],
    }})
}

fn host_volume(job: &TrainJob) -> Value {
    json!({"name": HOSTS, "configMap": {
        "name": name::of(job, HOSTS),
        "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
    }})
}

/// One line for each node, in the order of the jobs.
fn hostfile(info: &Info, job: &TrainJob, policy: &MpiPolicy) -> Result<Value, Fault> {
    let slots = processes(info, job, policy);
    let trains = |name: &str| name == NODE || (name == LAUNCHER && launcher_trains(policy));
    let mut text = String::new();
    let nodes = info.pod_sets.iter().filter(|pods| trains(&pods.name));
    for endpoint in nodes.flat_map(|pods| pods.endpoints.iter()) {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{endpoint} slots={slots}");
        if text.len() > LARGEST {
            return Err(Fault::new(format!(
                "TrainJob {}/{}: its host file is larger than a ConfigMap can be; use fewer nodes",
                job.namespace(),
                job.name()
            )));
        }
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": name::metadata(job, &name::of(job, HOSTS)),
        "data": {"hostfile": text},
    }))
}
