//! A snapshot to ask, and the program to ask with.

use std::fs;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::program::{ProgramOutput, musterctl};

pub const NPU: &str = "huawei.com/Ascend910";

/// A cluster in a file.
pub struct ClusterFile(pub Json);

pub fn node(name: &str, devices: u32) -> Json {
    json!({"metadata": {"name": name, "labels": {"zone": "z", "rack": format!("rack-of-{name}")}},
        "spec": {},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110", NPU: devices.to_string()},
            "capacity": {"cpu": "64", "memory": "64Gi", "pods": "110", NPU: "8"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

pub fn queue(name: &str, parent: &str, quota: i32, limit: i32) -> Json {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let devices = json!({"quota": quota, "limit": limit, "overQuotaWeight": 1});
    json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": devices, "cpu": free, "memory": free}}})
}

/// A pod group of namespace `ml`, made so many seconds after the others.
pub fn group(name: &str, queue: &str, needs: u32, second: u32) -> Json {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ml",
            "creationTimestamp": format!("2025-12-31T00:00:{second:02}Z")},
        "spec": {"queue": queue, "minMember": needs, "priorityClassName": "train"}})
}

/// A pod of namespace `ml`; it runs if it has a node.
pub fn pod(name: &str, group: &str, devices: u32, node: &str) -> Json {
    let phase = if node.is_empty() { "Pending" } else { "Running" };
    let resources = json!({"requests": {NPU: devices.to_string(), "cpu": "1"}, "limits": {NPU: devices.to_string()}});
    json!({"metadata": {"name": name, "namespace": "ml", "annotations": {"pod-group-name": group}},
        "spec": {"schedulerName": "muster-scheduler", "nodeName": node,
            "containers": [{"name": "main", "image": "i", "resources": resources}]},
        "status": {"phase": phase}})
}

pub fn owned(mut object: Json, kind: &str, name: &str) -> Json {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": name}]);
    object
}

// === impl ClusterFile ===

impl ClusterFile {
    /// Four nodes of eight devices, one of them tainted, one cordoned; two queues. `old` has the first node.
    pub fn new() -> Self {
        let mut tainted = node("n2", 8);
        tainted["spec"]["taints"] =
            json!([{"key": "maintenance", "value": "yes", "effect": "NoSchedule"}]);
        let mut cordoned = node("n3", 8);
        cordoned["spec"]["unschedulable"] = json!(true);
        Self(json!({
            "now": "2026-01-01T00:00:00Z",
            "nodes": [node("n0", 8), node("n1", 8), tainted, cordoned],
            "queues": [queue("org", "", -1, -1), queue("team-a", "org", 8, -1), queue("team-b", "org", 8, 8)],
            "podGroups": [group("old", "team-b", 1, 0)],
            "pods": [pod("old-0", "old", 8, "n0")],
            "priorityClasses": [{"metadata": {"name": "train"}, "value": 50},
                {"metadata": {"name": "urgent"}, "value": 75}],
        }))
    }

    pub fn with(mut self, list: &str, objects: impl IntoIterator<Item = Json>) -> Self {
        if self.0[list].is_null() {
            self.0[list] = json!([]);
        }
        self.0[list].as_array_mut().unwrap().extend(objects);
        self
    }

    /// A group, and so many pods of so many devices each that wait.
    pub fn waiting(self, name: &str, queue: &str, pods: u32, devices: u32) -> Self {
        let second = self.0["podGroups"].as_array().unwrap().len() as u32;
        let pods = (0..pods).map(|at| pod(&format!("{name}-{at}"), name, devices, ""));
        let pods: Vec<Json> = pods.collect();
        let needs = pods.len() as u32;
        self.with("podGroups", [group(name, queue, needs, second)]).with("pods", pods)
    }

    pub fn ask(&self, arguments: &[&str]) -> ProgramOutput {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("snapshot.json");
        fs::write(&file, self.0.to_string()).unwrap();
        musterctl(&[arguments, &["-f", file.to_str().unwrap()]].concat())
    }

    /// Asks it as a program does. The answer is the same as YAML.
    pub fn json(&self, arguments: &[&str]) -> Json {
        let (_, out, error) = self.ask(&[arguments, &["-o", "json"]].concat());
        let json = serde_json::from_str::<Json>(&out);
        assert!(json.is_ok(), "{out}{error}");
        let json = json.unwrap();
        let (_, yaml, _) = self.ask(&[arguments, &["-o", "yaml"]].concat());
        assert_eq!(serde_saphyr::from_str::<Json>(&yaml).unwrap(), json);
        json
    }

    /// Asks it as people do: nothing is wider than a terminal.
    pub fn text(&self, arguments: &[&str]) -> ProgramOutput {
        let ended = self.ask(arguments);
        let wide = ended.1.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None);
        ended
    }
}
