//! Small clusters, written short.

use muster_scheduler::{
    config::Config,
    decisions::{Action, Decisions},
    framework::Registry,
    input::{Limits, load},
    snapshot::{Overlay, Snapshot},
};
use serde_json::{Value, json};

/// A cluster.
#[derive(Default)]
pub struct World {
    nodes: Vec<Value>,
    queues: Vec<Value>,
    groups: Vec<Value>,
    pods: Vec<Value>,
    topologies: Vec<Value>,
    config: Option<Value>,
    more: Vec<(String, Value)>,
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    /// A node with so many devices, and labels.
    pub fn node(mut self, name: &str, gpus: u32, labels: Value) -> Self {
        self.nodes.push(json!({"metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string()},
                "conditions": [{"type": "Ready", "status": "True"}]}}));
        self
    }

    /// A queue with a quota of devices; everything else is without end.
    pub fn queue(self, name: &str, quota: f64) -> Self {
        self.queue_of(name, json!({"quota": quota, "limit": -1, "overQuotaWeight": 1}), "")
    }

    /// A queue with what is said of its devices, below another.
    pub fn queue_of(mut self, name: &str, gpu: Value, parent: &str) -> Self {
        let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        self.queues.push(json!({"metadata": {"name": name}, "spec": {"parentQueue": parent,
            "resources": {"gpu": gpu, "cpu": free, "memory": free}}}));
        self
    }

    /// A group.
    pub fn group(mut self, name: &str, queue: &str, mut spec: Value) -> Self {
        spec["queue"] = json!(queue);
        self.groups.push(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}));
        self
    }

    /// Pods of a group: with so many devices each, on a node or waiting.
    pub fn pods(self, group: &str, count: usize, gpus: u32, node: &str) -> Self {
        self.pods_with(
            group,
            count,
            json!({"nvidia.com/gpu": gpus.to_string(), "cpu": "1"}),
            node,
            json!({}),
        )
    }

    /// Pods of a group, with requests and annotations.
    pub fn pods_with(
        mut self,
        group: &str,
        count: usize,
        requests: Value,
        node: &str,
        marks: Value,
    ) -> Self {
        for _ in 0..count {
            let name = format!("{group}-{}", self.pods.len());
            let mut annotations = marks.clone();
            annotations["pod-group-name"] = json!(group);
            let phase = if node.is_empty() { "Pending" } else { "Running" };
            let mut labels = json!({});
            if let Some(device) = marks.get("device") {
                labels["runai-gpu-group"] = device.clone();
            }
            self.pods.push(json!({
                "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations, "labels": labels},
                "spec": {"nodeName": node, "schedulerName": "kai-scheduler",
                    "containers": [{"name": "main", "resources": {"requests": requests}}]},
                "status": {"phase": phase}}));
        }
        self
    }

    /// A topology of zones and racks.
    pub fn racks(mut self) -> Self {
        self.topologies.push(json!({"metadata": {"name": "racks"},
            "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}));
        self
    }

    /// A node as it is.
    pub fn with_node(mut self, node: Value) -> Self {
        self.nodes.push(node);
        self
    }

    /// The pods that are there so far are being deleted.
    pub fn leaving(mut self) -> Self {
        for pod in &mut self.pods {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        self
    }

    /// More of a document.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.more.push((field.to_owned(), value));
        self
    }

    /// With a configuration.
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    fn document(&self) -> Value {
        let mut document = json!({"now": "2026-01-01T00:00:00Z", "nodes": self.nodes, "queues": self.queues,
            "podGroups": self.groups, "pods": self.pods, "topologies": self.topologies,
            "priorityClasses": [{"metadata": {"name": "high"}, "value": 90}]});
        for (field, value) in &self.more {
            document[field] = value.clone();
        }
        if let Some(config) = &self.config {
            document["config"] = config.clone();
        }
        document
    }

    /// Objects that cannot be read, and why.
    pub fn set_aside(&self) -> Vec<String> {
        let document = load(self.document().to_string().as_bytes(), Limits::default()).unwrap();
        document.input.set_aside.iter().map(ToString::to_string).collect()
    }

    /// One cycle.
    pub fn decide(&self) -> Decisions {
        self.decide_with(&Registry::default(), &[])
    }

    /// One cycle with plugins of one's own.
    pub fn decide_with(&self, registry: &Registry, own: &[&str]) -> Decisions {
        self.decide_over(&Overlay::default(), registry, own)
    }

    /// One cycle with what was ordered and no object shows yet.
    pub fn decide_over(
        &self,
        overlay: &Overlay<'_>,
        registry: &Registry,
        own: &[&str],
    ) -> Decisions {
        let document = load(self.document().to_string().as_bytes(), Limits::default()).unwrap();
        let config = Config::of_document(&document, own).unwrap();
        let now = document.input.now.unwrap();
        let snapshot = Snapshot::build(&document.input, overlay, &config.params, now);
        muster_scheduler::decide_with(&snapshot, &config, now, registry)
    }
}

/// `action pod node`, in order.
pub fn told(decisions: &Decisions) -> Vec<String> {
    let word = |action: Action| match action {
        Action::Bind => "bind",
        Action::Evict => "evict",
        Action::Pipeline => "pipeline",
    };
    let line = |it: &muster_scheduler::decisions::Decision| {
        format!("{} {} {}", word(it.action), it.pod.trim_start_matches("ns/"), it.node)
    };
    decisions.decisions.iter().map(line).collect()
}
