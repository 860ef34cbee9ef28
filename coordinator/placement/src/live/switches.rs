//! What the object `kai-config` switches on and off.

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
    /// Where Prometheus is, for shards that do not say it themselves.
    pub prometheus: Option<String>,
}

/// What is said of the admission of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
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
        Self {
            paused,
            grouping: !off("/podGrouper/service/enabled"),
            knative_gang: !off("/podGrouper/args/gangScheduleKnative"),
            node_pool_label: text(spec, "/global/nodePoolLabelKey").filter(|key| !key.is_empty()),
            prometheus: prometheus(spec),
        }
    }
}

// === impl Admission ===

impl Admission {
    /// Reads the spec of a `Config`.
    pub fn read(spec: &Value) -> Self {
        let yes = |pointer: &str| spec.pointer(pointer).and_then(Value::as_bool);
        let class = text(spec, "/admission/gpuFractionRuntimeClassName");
        Self {
            gpu_sharing: yes("/admission/gpuSharing"),
            block_visible_devices: yes("/admission/blockNvidiaVisibleDevices"),
            runtime_class: class.or_else(|| text(spec, "/admission/gpuPodRuntimeClassName")),
        }
    }
}

/// Where Prometheus is: that of KAI's operator, or one outside.
fn prometheus(spec: &Value) -> Option<String> {
    let namespace = text(spec, "/namespace").unwrap_or_else(|| "kai-scheduler".to_owned());
    if spec.pointer("/prometheus/enabled") == Some(&Value::Bool(true)) {
        return Some(format!("http://prometheus-operated.{namespace}.svc.cluster.local:9090"));
    }
    let outside = ["/prometheus/externalPrometheusUrl", "/global/connection/url"];
    outside.into_iter().find_map(|pointer| text(spec, pointer)).filter(|url| !url.is_empty())
}

fn text(spec: &Value, pointer: &str) -> Option<String> {
    spec.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
