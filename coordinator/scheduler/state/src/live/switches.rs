//! What the object `kai-config` switches on and off.

use muster_scheduler::config::is_name;
use serde_json::Value;

/// What is switched on and off. What is not said is on, as with KAI's operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The field that keeps pods from being placed, if one does.
    pub paused: Option<&'static str>,
    /// Whether pods become groups.
    pub grouping: bool,
    /// Whether the pods of a Knative revision are one group; otherwise each is one.
    pub knative_gang: bool,
    /// The label of node pools, if it is said.
    pub node_pool_label: Option<String>,
    /// The label that names the queue of a pod, if it is said.
    pub queue_label: Option<String>,
    /// The scheduler's name, if it is said.
    pub scheduler_name: Option<String>,
    /// Whether pods are changed and refused when they are created.
    pub admission: bool,
    /// Where Prometheus is, for shards that do not say it themselves.
    pub prometheus: Option<String>,
    /// The Secret with the credentials of a Prometheus that is not KAI's own.
    pub prometheus_secret: Option<String>,
}

/// What is said of the admission of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Whether pods are changed and refused at all.
    pub enabled: Option<bool>,
    /// Whether pods may share devices.
    pub gpu_sharing: Option<bool>,
    /// Whether containers may choose devices by `NVIDIA_VISIBLE_DEVICES`.
    pub block_visible_devices: Option<bool>,
    /// The runtime class of pods that share a device; empty: none.
    pub runtime_class: Option<String>,
}

/// Those without which no pod is placed: what decides, and what binds.
const PLACING: [(&str, &str); 2] = [
    ("/scheduler/service/enabled", "spec.scheduler.service.enabled"),
    ("/binder/service/enabled", "spec.binder.service.enabled"),
];

/// What changes and refuses pods.
const ADMISSION: &str = "/admission/service/enabled";
/// The longest key of a label: a domain, a slash, and a name.
const LONGEST_KEY: usize = 253 + 1 + 63;

// === impl Switches ===

impl Default for Switches {
    fn default() -> Self {
        Self::read(&Value::Null)
    }
}

impl Switches {
    /// Reads the spec of a `Config`.
    pub fn read(spec: &Value) -> Self {
        let off = |pointer: &str| spec.pointer(pointer) == Some(&Value::Bool(false));
        let paused = PLACING.iter().find(|(pointer, _)| off(pointer)).map(|(_, field)| *field);
        let (prometheus, prometheus_secret) = prometheus(spec);
        Self {
            paused,
            grouping: !off("/podGrouper/service/enabled"),
            knative_gang: !off("/podGrouper/args/gangScheduleKnative"),
            node_pool_label: filled(spec, "/global/nodePoolLabelKey"),
            queue_label: filled(spec, "/global/queueLabelKey"),
            scheduler_name: filled(spec, "/global/schedulerName"),
            admission: !off(ADMISSION),
            prometheus,
            prometheus_secret,
        }
    }
}

impl Switches {
    /// What is said and not obeyed, with what helps: `schedulers` are the names whose pods are scheduled.
    pub(super) fn problems(&self, schedulers: &[String]) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(name) = &self.scheduler_name
            && !schedulers.contains(name)
        {
            problems.push(format!(
                "spec.global.schedulerName: pods of {name} are not placed, since the names are fixed at the coordinator's start, as {}: \
                 start it with --scheduler-name {name} too, or leave the field out",
                schedulers.join(", ")
            ));
        }
        if let Some(key) = self.queue_label.as_deref().filter(|key| !is_label_key(key)) {
            problems.push(format!(
                "spec.global.queueLabelKey: `{key}` cannot be the key of a label: write one like kai.scheduler/queue"
            ));
        }
        if let Some(name) = self.prometheus_secret.as_deref().filter(|name| !is_name(name)) {
            problems.push(format!(
                "spec.global.connection.authSecretName: `{name}` is no name of a Secret: write one, without namespace"
            ));
        }
        problems
    }

    /// The label that names the queue of a pod, if one is said that can be.
    pub fn queue_label(&self) -> Option<&str> {
        self.queue_label.as_deref().filter(|key| is_label_key(key))
    }
}

// === impl Admission ===

impl Admission {
    /// Reads the spec of a `Config`.
    pub fn read(spec: &Value) -> Self {
        let yes = |pointer: &str| spec.pointer(pointer).and_then(Value::as_bool);
        let class = text(spec, "/admission/gpuFractionRuntimeClassName");
        Self {
            enabled: yes(ADMISSION),
            gpu_sharing: yes("/admission/gpuSharing"),
            block_visible_devices: yes("/admission/blockNvidiaVisibleDevices"),
            runtime_class: class.or_else(|| text(spec, "/admission/gpuPodRuntimeClassName")),
        }
    }
}

/// Where Prometheus is: that of KAI's operator, or one outside; and the Secret that was written beside that address, for no other
/// server may get what is in it.
fn prometheus(spec: &Value) -> (Option<String>, Option<String>) {
    if spec.pointer("/prometheus/enabled") == Some(&Value::Bool(true)) {
        let namespace = filled(spec, "/namespace").unwrap_or_else(|| "kai-scheduler".to_owned());
        let own = format!("http://prometheus-operated.{namespace}.svc.cluster.local:9090");
        return (Some(own), None);
    }
    let external = filled(spec, "/prometheus/externalPrometheusUrl");
    match external {
        Some(url) => (Some(url), None),
        None => (
            filled(spec, "/global/connection/url"),
            filled(spec, "/global/connection/authSecretName"),
        ),
    }
}

/// Whether a text can be the key of a label.
fn is_label_key(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let ends = |part: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        edge(part.bytes().next()) && edge(part.bytes().last())
    };
    let (domain, name) = key.rsplit_once('/').unwrap_or(("a", key));
    key.len() <= LONGEST_KEY
        && key.bytes().all(plain)
        && !domain.contains('/')
        && name.len() <= 63
        && ends(domain)
        && ends(name)
}

fn filled(spec: &Value, pointer: &str) -> Option<String> {
    text(spec, pointer).filter(|text| !text.is_empty())
}

fn text(spec: &Value, pointer: &str) -> Option<String> {
    spec.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
