//! Pods, made from templates.

use muster_kube::Quantity;
use serde_json::{Map, Value, json};

use crate::api::{DIJob, Replica, Template};
use crate::names::{self, env, label};
use crate::pod::{Pod, device};
use crate::role::Role;
use crate::{api, gang};

/// The most pods of a job, by default: ten requests of the most replicas, and what a headless Service for each of them does not
/// overload a cluster's DNS with.
pub const MOST_PODS: usize = 10_000;

/// How pods are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where pods find the DI server.
    pub server_url: String,
    /// Namespace of the AggregatorConfig.
    pub aggregator_namespace: String,
    /// Name of the AggregatorConfig.
    pub aggregator_name: String,
    /// The resource that `gpus` means, if the template names no other device.
    pub gpu: String,
    /// Whether all pods get the job's priority class that name none.
    pub propagate_priority: bool,
    /// Whether workers of split groups get a port that makes up for their rank.
    pub rank_shifted: bool,
    /// The most replicas that one request may ask for.
    pub most_replicas: i64,
    /// The most pods that a job may have when a request asks for more.
    pub most_pods: usize,
}

/// What a request wants each replica to have. Nothing leaves what the template says.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Processors.
    pub cpus: Quantity,
    /// Memory.
    pub memory: Quantity,
    /// Devices.
    pub gpus: u64,
}

/// A pod's part in a logic learner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Processes of the logic learner.
    pub world: u64,
    /// Of this pod.
    pub share: u64,
    /// Rank of its first.
    pub start: u64,
    /// Whether the logic learner is several pods.
    pub split: bool,
    /// Its number among them.
    pub index: u64,
    /// How many they are.
    pub pods: u64,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_url: names::SERVER_URL.to_owned(),
            aggregator_namespace: names::AGGREGATOR_NAMESPACE.to_owned(),
            aggregator_name: names::AGGREGATOR_NAME.to_owned(),
            gpu: names::GPU.to_owned(),
            propagate_priority: true,
            rank_shifted: false,
            most_replicas: 1000,
            most_pods: MOST_PODS,
        }
    }
}

// === impl Resources ===

impl Default for Resources {
    fn default() -> Self {
        let none = Quantity::ZERO;
        Self { cpus: none, memory: none, gpus: 0 }
    }
}

/// The template of a role, if the job has one.
pub fn template(job: &DIJob, role: Role) -> Option<&Template> {
    let spec = &job.spec;
    let replica: Option<&Replica> = match role {
        Role::Coordinator => spec.coordinator.as_ref(),
        Role::Collector => spec.collector.as_ref(),
        Role::Learner | Role::DdpLearner => spec.learner.as_ref(),
        Role::Aggregator => None,
    };
    replica.map(|replica| &replica.template).filter(|template| has_containers(template))
}

/// Whether a template has anything to run.
pub fn has_containers(template: &Template) -> bool {
    let containers = template.spec.get("containers").and_then(Value::as_array);
    containers.is_some_and(|containers| !containers.is_empty())
}

/// The resource that `gpus` means for pods of this template.
pub fn device_of(template: &Template, settings: &Settings) -> String {
    let containers = template.spec.get("containers").and_then(Value::as_array);
    let worker = containers.into_iter().flatten().find(|one| one["name"] == names::CONTAINER);
    worker.and_then(device).unwrap_or(&settings.gpu).to_owned()
}

/// A pod with all that pods of every role have.
pub fn pod(job: &DIJob, role: Role, template: &Template, name: &str, settings: &Settings) -> Pod {
    let mut pod = Pod { spec: template.spec.clone(), ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some(job.namespace().to_owned());
    pod.metadata.annotations.clone_from(&template.metadata.annotations);
    pod.metadata.owner_references = Some(vec![job.owner()]);
    let labels = pod.labels_mut();
    labels.extend(template.metadata.labels.clone().unwrap_or_default());
    labels.extend(selector(&job.label(), role, name));
    if role != Role::Aggregator {
        add_volumes(&mut pod.spec, &job.spec.volumes);
    }
    let wants = role == Role::Coordinator || settings.propagate_priority;
    let priority = &job.spec.priority_class_name;
    if !priority.is_empty() && wants && (role == Role::Coordinator || says_nothing(&pod.spec)) {
        pod.spec.insert("priorityClassName".to_owned(), priority.as_str().into());
    }
    if role == Role::Coordinator {
        let policy = pod.spec.entry("restartPolicy").or_insert(Value::Null);
        if policy.as_str().is_none_or(str::is_empty) {
            *policy = "Never".into();
        }
    }
    let port = pod.port();
    publish(&mut pod, names::PORT, port);
    pod.set_variable(env::NAMESPACE, job.namespace());
    pod.set_variable(env::POD, name);
    pod.set_variable(env::SERVER, &settings.server_url);
    pod.set_variable(role.port_variable(), &port.to_string());
    if role == Role::Coordinator {
        let url = pod.url();
        pod.set_variable(env::COORDINATOR, &url);
    }
    gang::mark(job, role, &mut pod);
    pod
}

/// The labels by which a pod is found.
pub fn selector(job: &str, role: Role, pod: &str) -> [(String, String); 5] {
    [
        (label::GROUP, api::GROUP),
        (label::JOB, job),
        (label::CONTROLLER, label::CONTROLLER_VALUE),
        (label::ROLE, role.word()),
        (label::POD, pod),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
}

fn says_nothing(spec: &Map<String, Value>) -> bool {
    spec.get("priorityClassName").and_then(Value::as_str).is_none_or(str::is_empty)
}

fn add_volumes(spec: &mut Map<String, Value>, volumes: &[Value]) {
    if volumes.is_empty() {
        return;
    }
    let all = spec.entry("volumes").or_insert(Value::Null);
    match all.as_array_mut() {
        Some(all) => all.extend_from_slice(volumes),
        None => *all = volumes.to_vec().into(),
    }
}

/// Adds a port to the container that has ports, unless it has one of this name.
fn publish(pod: &mut Pod, name: &str, number: u32) {
    for container in
        pod.containers_mut().filter(|one| one.get("name") == Some(&names::CONTAINER.into()))
    {
        let ports = container.entry("ports").or_insert(Value::Null);
        let port = json!({"name": name, "containerPort": number});
        match ports.as_array_mut() {
            Some(ports) if ports.iter().any(|port| port["name"] == name) => {}
            Some(ports) => ports.push(port),
            None => *ports = json!([port]),
        }
    }
}

/// What a request wants, over what the template says.
pub fn give(pod: &mut Pod, resources: &Resources, device: &str) {
    let mut amounts = Map::new();
    for (name, amount) in [("cpu", resources.cpus), ("memory", resources.memory)] {
        if !amount.is_zero() {
            amounts.insert(name.to_owned(), amount.to_string().into());
        }
    }
    if resources.gpus > 0 {
        amounts.insert(device.to_owned(), resources.gpus.to_string().into());
    }
    if amounts.is_empty() {
        return;
    }
    for container in
        pod.containers_mut().filter(|one| one.get("name") == Some(&names::CONTAINER.into()))
    {
        let resources = container.entry("resources").or_insert_with(|| json!({}));
        if !resources.is_object() {
            *resources = json!({});
        }
        for key in ["limits", "requests"] {
            match resources[key].as_object_mut() {
                Some(listed) => listed.extend(amounts.clone()),
                None => resources[key] = amounts.clone().into(),
            }
        }
    }
}

/// What makes a pod a DDP learner: its part, where the first of them is, and whose they are.
pub fn ddp(
    pod: &mut Pod,
    part: &Part,
    master: Option<&str>,
    aggregator: (&str, &str),
    settings: &Settings,
) {
    let port = pod.port();
    for process in 1..part.share {
        let Ok(process) = u32::try_from(process) else { break };
        publish(pod, &format!("{}-{process}", names::GPU_PORT), port.saturating_add(process));
    }
    if part.split {
        let kind = if master.is_none() { label::DDP_MASTER } else { label::DDP_WORKER };
        pod.labels_mut().insert(label::DDP.to_owned(), kind.to_owned());
        if master.is_none() {
            publish(pod, names::MASTER_PORT, names::MASTER_PORT_NUMBER);
        }
    }
    if settings.rank_shifted && part.start > 0 {
        let start = u32::try_from(part.start).unwrap_or(u32::MAX);
        let variable = Role::DdpLearner.port_variable();
        pod.set_variable(variable, &port.saturating_sub(start).to_string());
    }
    pod.set_variable(env::WORLD_SIZE, &part.world.to_string());
    pod.set_variable(env::LOCAL_WORLD_SIZE, &part.share.to_string());
    pod.set_variable(env::START_RANK, &part.start.to_string());
    pod.set_variable(env::MASTER_ADDR, master.unwrap_or("localhost"));
    pod.set_variable(env::MASTER_PORT, &names::MASTER_PORT_NUMBER.to_string());
    let (name, uid) = aggregator;
    let owner = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: None,
    };
    pod.metadata.owner_references.get_or_insert_default().push(owner);
}
